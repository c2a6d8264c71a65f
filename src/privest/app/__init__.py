"""The app: a plan, a release and its results, in a browser on this machine.

A local server over the same calls as the command line; no mathematics is in this folder. It needs
the extra 'app' (Starlette, Jinja2, uvicorn); nothing is loaded from elsewhere.

    start    a table, a plan, a release
    data     what each column is             → a specification
    privacy  ε, errors and exposure          → a plan
    release  dry run, cost, confirmation     → a release
    results  estimates, export, history
"""

from privest.app.desk import Desk
from privest.app.server import make_app, serve

__all__ = ["Desk", "make_app", "serve"]
