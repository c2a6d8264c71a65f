"""10⁴ forms that no page would send: each gets a message or a way on, and the app stays usable."""

import pytest

from app_fuzz_run import fuzz

pytestmark = pytest.mark.browser

PARTS = 4  # side by side where there are cores


@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_forms_never_break_the_app(tmp_path, part):
    told = fuzz(tmp_path, 10_000 // PARTS, seed=19 + part)
    assert sum(told.values()) == 10_000 // PARTS
    # Forms are understood, and refused, at every screen; not only kept out at the door.
    for screen in ("data", "privacy", "release", "results"):
        posts = {status for route, status in told if route.startswith(f"POST {screen}_")}
        expected = {422} if screen == "results" else {303, 422}  # one form there, of many fields
        assert expected <= posts, screen
