"""Debian's chromium, or Google's Chrome: the browser of the tests marked `browser`."""

import os
import shutil

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no browser here: chromium or google-chrome must be on the PATH"
)
# Chromium refuses its sandbox to root.
AS_ROOT = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
