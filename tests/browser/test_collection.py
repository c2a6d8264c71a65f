"""The live page of a collector: what it shows as reports come, on every width, light and dark."""

import json
import urllib.request

import pytest

from app_looks import LOOKS, MEASURE
from app_watched import POLICY, accessibility
from collector_servers import Served
from privest.collect import load_plan

pytestmark = pytest.mark.browser

PLAN = """
name = "meter"
features = ["temperature", "hour-of-the-day"]
range = [0, 2]
residual_variance = 0.04
steps = 1000
[levels]
low = 1.0
"""


def send(served, plan, steps):
    reports = [
        {"id": f"{k:032x}", "device": f"d{k % 7}", "step": k, "level": "low",
         "features": [k * 997 % 65536, k * 331 % 65536], "z": 1000 + k * 37 % 500}
        for k in steps
    ]  # fmt: skip
    body = json.dumps({"plan": plan.hash, "reports": reports}).encode()
    with urllib.request.urlopen(f"{served.url}/reports", body, timeout=20) as answer:
        assert answer.status == 201


def test_the_live_page(chromium, tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    plan, complaints = load_plan(tmp_path / "plan.toml"), []
    with Served(tmp_path / "plan.toml", tmp_path / "c.db") as served:
        for width, dark in LOOKS:
            context = chromium.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
            )
            context.add_init_script(POLICY)
            context.on("console", lambda m: complaints.append(m.text) if m.type != "log" else None)
            asked = []
            context.on("request", lambda one, asked=asked: asked.append(one.url))
            page = context.new_page()
            page.goto(served.url)
            if (width, dark) == LOOKS[0]:
                page.get_by_text("0 measurements have arrived").wait_for()
                for k in range(0, 600, 200):
                    send(served, plan, range(k, k + 200))
                    page.locator("#reports", has_text=str(k + 200)).wait_for()
            page.locator("#reports", has_text="600").wait_for()
            assert page.locator("#devices").inner_text() == "7"
            rows = page.locator("#parameters tr")
            assert rows.count() == 3
            assert rows.nth(1).locator("th").inner_text() == "temperature"
            _, value, low, to, high, error, bound, plain = rows.nth(1).inner_text().split()
            assert to == "to"
            assert float(low) < float(value) < float(high)
            assert float(plain) < float(bound) <= float(error)
            assert page.locator("#course polyline").count() == 2
            found = page.evaluate(MEASURE)
            assert found["across"] <= found["wide"], found["outside"]
            for fault in ("outside", "cut", "small", "unreached", "broken"):
                assert found[fault] == [], (width, fault)
            assert (found["paper"] < 0.3) == dark
            assert (found["h1"], found["lang"], found["title"]) == (1, "en", "meter · privest")
            assert accessibility(page) == []
            assert all(one.startswith(served.url) for one in asked)
            page.screenshot(path=tmp_path / f"live-{width}-{dark}.png")
            context.close()
        assert [one for one in complaints if "axe" not in one] == []
        assert served.close() == 0  # also while a page is open
