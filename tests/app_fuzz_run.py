"""Many fuzzed forms, one after the other, against an app that must stay usable."""

import random
import re
from collections import Counter

from app_fuzz import mutated, require_message, urlencoded_or_parts
from app_stage import Stage

FRESH = 100  # forms until the pieces of work are set up again: some clear them away
SELDOM = ("/clear", "/export/report", "/export/all", ".css")  # nothing is left; slow


def fuzz(folder, cases, *, quick=False, seed=19) -> Counter:
    """How often each route answered with each status; raises at the first bad answer."""
    stage, told = Stage(folder, quick=quick), Counter()
    try:
        for case in range(cases):
            if case and case % FRESH == 0:
                stage.set()
            told[_one(stage, random.Random(seed * 1_000_003 + case), case)] += 1
    finally:
        stage.close()
    return told


def _one(stage, rng, case):
    where = rng.choice(sorted(stage.forms))
    while where[1].endswith(SELDOM) and rng.random() < 0.9:
        where = rng.choice(sorted(stage.forms))
    form = rng.choice(stage.forms[where])
    fields, files = mutated(form, rng)
    arguments = urlencoded_or_parts(form, fields, files, rng)
    if rng.random() < 0.3:
        arguments.setdefault("headers", {})["hx-request"] = "true"
    route = stage.route_of(where)
    said = f"case {case}, {where[0]} {route}: {str(fields)[:600]} {str(files)[:200]}"
    answer = stage.send(form, **arguments)
    sentinels = (
        () if re.search(r"/data(/\w+)?$", where[1]) else stage.sentinels
    )  # its owner sees it
    require_message(answer, (stage.client.desk.session,), sentinels, said)
    return route, answer.status_code
