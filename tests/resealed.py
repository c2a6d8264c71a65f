"""Documents of releases as a forger writes them, whose checksums are right: they need no key."""

import hashlib
import json


def written(record):
    """As privest writes a document."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def resealed(record):
    """The same fields under SHA-256 of the sums and a checksum made anew."""
    facts = {name: value for name, value in record.items() if name not in ("checksum", "signature")}
    if facts.get("sums"):
        sums = json.dumps(facts["sums"], sort_keys=True, separators=(",", ":"))
        facts["sha256"] = hashlib.sha256(sums.encode()).hexdigest()
    body = written(facts).removesuffix("\n}\n")
    seal = {"checksum": hashlib.sha256(body.encode()).hexdigest()}
    if "signature" in record:
        seal["signature"] = record["signature"]
    return facts | seal


def resealed_text(text):
    """A text in which only the checksum is made anew, whatever stands around it."""
    body, mark, end = text.partition(',\n "checksum": "')
    return body + mark + hashlib.sha256(body.encode()).hexdigest() + end[64:]
