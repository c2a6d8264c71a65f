"""The app: what privacy costs, a release, and its results, in a browser on this machine.

A local server over the same calls as the command line: no mathematics is in this folder. It needs
the extra 'app' (Starlette, Jinja2, uvicorn); htmx is part of the package, nothing is loaded from
elsewhere.
"""

from privest.app._desk import Desk
from privest.app._server import make_app, serve

__all__ = ["Desk", "make_app", "serve"]
