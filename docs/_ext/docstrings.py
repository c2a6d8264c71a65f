"""Docstrings of this project as reStructuredText.

They are plain text: `code` in single backticks, formulas indented by four or more, and lists of
"name   meaning" whose meanings stand in one column.
"""

import re

ITEM = re.compile(r"^(\w[\w.*]*(?:, \w+)*)(?: {2,}(\S.*))?$")


def as_rst(lines):
    """The lines of a docstring, in reStructuredText."""
    found, formula, inside = [], False, None
    for line in lines:
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if not text:
            found.append("")
            formula, inside = False, None
        elif text.startswith((">>>", "...")) or formula == "doctest":
            if formula != "doctest":
                found += [""] * (not found or found[-1] != "")
            formula = "doctest"
            found.append(line)
        elif inside is not None and indent > 0:
            found.append(f"  {_code(text)}")
        elif indent >= 4 and (formula or not found or not found[-1]):
            if not formula:
                found += ["", "::", ""]
            formula = True
            found.append(line)
        else:
            if formula:
                found.append("")
                formula = False
            item = ITEM.match(line)  # one that is not indented
            if item and (item[2] or inside is not None):  # a long name has a line of its own
                if inside is None and found and found[-1]:
                    found.append("")
                inside = item[1]
                found.append(f"- **{item[1]}** {_code(item[2] or '')}".rstrip())
            else:
                if inside is not None:
                    found.append("")
                inside = None
                found.append(_code(text))
    return found


def _code(text):
    """`x` as literal; what reStructuredText would take for markup as it stands."""
    parts = text.split("`")
    for k, part in enumerate(parts):
        if k % 2:
            parts[k] = f"``{part}``" if part else ""
        else:
            plain = re.sub(r"([*|_\\])", r"\\\1", part)
            parts[k] = "\\ " + plain if k and plain[:1].isalnum() else plain
    return "".join(parts)


# What calls return: their fields are promised, their constructors are not.
RESULTS = {
    "Account", "Allocation", "Attack", "Bound", "Certificate", "ClippingCost", "Consensus",
    "Diagnosis", "Entry", "Exposure", "FamilyEstimate", "Figure", "Forecast", "Identifiability",
    "Information", "Plan", "Prediction", "SampleSize", "Section", "StateBound", "StateEstimate",
    "Statement", "TableRelease", "TraceBound", "Verification", "WaldTest",
}  # fmt: skip


def without_constructor(app, what, name, found, options, signature, returned):
    """A result's signature is left out."""
    hidden = what == "class" and found.__name__ in RESULTS
    return ("", None) if hidden else None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", without_constructor)
    app.connect(
        "autodoc-process-docstring",
        lambda app, what, name, obj, options, lines: lines.__setitem__(slice(None), as_rst(lines)),
    )
    return {"parallel_read_safe": True}
