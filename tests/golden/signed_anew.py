"""Writes checksums and signatures of the golden releases anew, with the keys of their ledgers.

For a change of how a document is signed: what it says stays as it is, and so does every number.
`python tests/golden/signed_anew.py`
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import privest as pv

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from resealed import resealed, written  # noqa: E402 - tests are no package

LEDGERS = {
    "of-1.0/ledger.db": "of-1.0/release.json",
    "kinds/aggregate.db": "kinds/*/release.json",
    "kinds/ledger.db": "kinds/*/release.csv.json",
}


def sign(ledger, files):
    for file in files:
        record = resealed(json.loads(file.read_text()))
        text = f"{record['format']} {record['version']} {record['checksum']}"
        record["signature"] = ledger.sign(text.encode())
        file.write_text(written(record))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name, pattern in LEDGERS.items():
            copy = Path(folder) / "ledger.db"
            shutil.copy(HERE / name, copy)
            copy.chmod(0o600)
            with pv.Ledger(copy, create=False, marks=folder) as ledger:
                sign(ledger, sorted(HERE.glob(pattern)))
