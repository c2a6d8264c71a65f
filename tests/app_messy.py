"""A table as people have them: semicolons, decimal commas, an old alphabet, gaps, codes, names.

One reading and one name in it are sentinels: no page after the data screen may show them.
"""

SENTINEL = "5.31947"  # a private reading, in the first row
COMMA = SENTINEL.replace(".", ",")
PERSON = "Zaphodine"  # in a column that is not used
SENTINELS = (SENTINEL, COMMA, PERSON)
ROWS = 240


def messy() -> bytes:
    """240 rows, of which a few have gaps or codes."""
    lines = ["Name;Größe;Gruppe;Alter;Dosis;Marker"]
    for k in range(ROWS):
        group = ("alt", "neu", "ohne")[k % 3]
        age = 999 if k % 40 == 7 else 25 + (k * 17) % 50
        dose = "" if k % 60 == 13 else f"{(k * 7) % 11 / 2:.1f}"
        marker = 3 + 0.02 * (age % 900) + 0.3 * (k % 3) + ((k * 7919) % 97 - 48) / 100
        shown = SENTINEL if k == 0 else "k.A." if k % 50 == 9 else f"{marker:.5f}"
        name = PERSON if k == 0 else f"Person {k}"
        size = f"{1.5 + (k * 31) % 40 / 100:.2f}"
        lines.append(";".join((name, size, group, str(age), dose, shown)).replace(".", ","))
    text = "\r\n".join(lines).replace("k,A,", "k.A.") + "\r\n"
    return text.encode("cp1252")
