"""The pictures of the app show the app as it is."""

import importlib.util
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[2] / "docs"


def test_pictures_are_of_the_screens_as_they_are():
    """By the templates and the style sheet. After a change of them: `make pictures`."""
    found = importlib.util.spec_from_file_location("app_pictures", DOCS / "app_pictures.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    pictures = sorted((DOCS / "images").glob("app-*.png"))
    assert len(pictures) == 7
    for picture in pictures:
        with Image.open(picture) as image:
            assert image.info.get(module.KEY) == module.digest(), picture.name
