"""docs/images/report.png: `privest demo --simulate`, photographed (needs chromium).

`make picture` makes it; the real demo has other numbers in every run. The first page of the report,
seen in a browser 900 pixels wide. What the page said is kept in the picture as a digest of its
words, so that a test notices when the demo says something else.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

PICTURE = Path(__file__).parent / "images" / "report.png"
SIZE = "900,1500"
KEY = "words of the page"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def digest_of(page: Path) -> str:
    """SHA-256 of the words and numbers of a page, without its markup and drawings.

    Without the day and the version that made it, too, and without checksums, in which the last bit
    of a number counts.
    """
    body = page.read_text(encoding="utf-8").partition("<body>")[2].partition("<footer>")[0]
    told = re.sub(r"<th[^>]*>(made with|page of)</th><td[^>]*>[^<]*</td>", " ", body)
    words = re.sub(r"\b[0-9a-f]{64}\b", "…", unescape(re.sub(r"<[^>]*>", " ", told))).split()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def digest_in(picture: Path) -> str | None:
    """That of the page which a picture was made of."""
    with Image.open(picture) as image:
        found = image.info.get(KEY)
    return None if found is None else str(found)


def main() -> None:
    """Run the demo, look at its page, keep the picture."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("the picture needs a browser: chromium or google-chrome on the PATH.")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "privest", "demo", "--simulate"], cwd=folder, check=True
        )
        page, shot = Path(folder) / "out" / "demo" / "report.html", Path(folder) / "shot.png"
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # chromium refuses its sandbox to root
        subprocess.run(
            [browser, *root, "--headless", "--disable-gpu", "--hide-scrollbars",
             "--blink-settings=preferredColorScheme=1", f"--user-data-dir={folder}/profile",
             f"--window-size={SIZE}", f"--screenshot={shot}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
        kept = PngInfo()
        kept.add_text(KEY, digest_of(page))
        with Image.open(shot) as image:
            image.convert("RGB").save(PICTURE, pnginfo=kept, optimize=True)
    print(f"{PICTURE}")


if __name__ == "__main__":
    main()
