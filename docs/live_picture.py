"""docs/images/collect.png: the live page of a collector while reports come (needs chromium).

`make pictures` makes it, from simulated measurements. A digest of the page's files is kept in the
picture, so that a test notices a stale one.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import privest
from privest.collect import CollectionPlan

PICTURE = Path(__file__).parent / "images" / "collect.png"
KEY, PORT = "files of the page", 8765
PLAN = """
name = "meters"
features = ["temperature", "weekend"]
range = [0, 2]
residual_variance = 0.04
steps = 100
[levels]
low = 0.5
high = 4.0
"""


def digest() -> str:
    """SHA-256 of what the page is made of."""
    parts = sorted((Path(privest.__file__).parent / "collect" / "static").iterdir())
    return hashlib.sha256(b"".join(one.read_bytes() for one in parts)).hexdigest()


def bodies(plan: CollectionPlan, days: int, devices: int) -> list[bytes]:
    """The reports of each day, simulated."""
    rng, found = np.random.default_rng(0), []
    for day in range(days):
        reports = []
        for device in range(devices):
            level = "high" if device % 5 == 0 else "low"
            h = [int(rng.integers(65537)), 65536 * int(day % 7 > 4)]
            y = 0.4 + 0.8 * h[0] / 65536 + 0.1 * (h[1] > 0) + 0.2 * rng.standard_normal()
            z = round(float(plan.mechanism(level).simulate(y, rng).values[0]) * 1024)
            reports.append(
                {"id": f"{device:016x}{day:016x}", "device": f"meter-{device}", "step": day,
                 "level": level, "features": h, "z": z}
            )  # fmt: skip
        found.append(json.dumps({"plan": plan.hash, "reports": reports}).encode())
    return found


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), f"http://127.0.0.1:{PORT}"
        (folder / "plan.toml").write_text(PLAN)
        words = ["collect", "plan.toml", "--open", "--port", str(PORT)]
        running = subprocess.Popen([sys.executable, "-m", "privest", *words], cwd=folder)
        time.sleep(4)
        plan = json.loads(urllib.request.urlopen(f"{url}/plan").read())
        with sync_playwright() as play:
            options = ["--no-sandbox", "--disable-background-networking"]
            path = shutil.which("chromium")
            browser = play.chromium.launch(executable_path=path, args=options)
            page = browser.new_page(viewport={"width": 900, "height": 1000})
            page.goto(url)
            for body in bodies(CollectionPlan.from_dict(plan), days=12, devices=400):
                urllib.request.urlopen(f"{url}/reports", body).read()
                time.sleep(1)
            page.wait_for_timeout(1500)
            page.screenshot(path=folder / "raw.png", full_page=True)
            browser.close()
        running.terminate()
        running.wait()
        kept = PngInfo()
        kept.add_text(KEY, digest())
        with Image.open(folder / "raw.png") as image:
            image.convert("RGB").quantize(64).save(PICTURE, optimize=True, pnginfo=kept)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
