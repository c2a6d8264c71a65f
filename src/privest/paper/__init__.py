"""The paper's reproduction: experiments, figures, rivals, NHANES, and its algorithms, literally.

Nothing in the library depends on this room; only the command line imports it.
"""

from privest.paper._nhanes import CYCLES, load_nhanes

__all__ = ["CYCLES", "load_nhanes"]
