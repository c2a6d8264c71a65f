"""The pictures of the app show the app as it is."""

import importlib.util
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("script", "names", "count"), [("app_pictures", "app-*", 7), ("live_picture", "collect", 1)]
)
def test_pictures_are_of_the_screens_as_they_are(script, names, count):
    """By the templates and the style sheet. After a change of them: `make pictures`."""
    found = importlib.util.spec_from_file_location(script, DOCS / f"{script}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    pictures = sorted((DOCS / "images").glob(f"{names}.png"))
    assert len(pictures) == count
    for picture in pictures:
        with Image.open(picture) as image:
            assert image.info.get(module.KEY) == module.digest(), picture.name
