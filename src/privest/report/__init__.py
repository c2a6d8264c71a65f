"""The results of the workflow for people: sections, and how each medium renders them.

describe   sections of a plan, a release, an estimate, a verification.
terminal   sections on a terminal, or as plain text; page: as one self-contained page.
figures    matplotlib figures of streams, dynamic models and examples.
"""
