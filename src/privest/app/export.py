"""Export: the release and its header, the plan, one script, the report; all of it as one file.

All of it is public, or made from what is. What is written for a download lies in the private folder
of the app and goes as soon as it was sent.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

import privest
from privest.app.desk import Work
from privest.app.pages import Form, desk_of, screen
from privest.app.results import estimate_of, released_of
from privest.report import save_report
from privest.workflow import Plan, Spec, commands_of, document_path, to_toml

PLAN, SCRIPT, REPORT, ARCHIVE = "plan.toml", "estimate.py", "report.html", "privest.zip"
STAMP = (1980, 1, 1, 0, 0, 0)  # of files in the archive: the same work gives the same bytes
PYTHON = '''"""Estimates from a release, as the app of privest {version} showed them.

Needs privest (pip install privest), and table and header of the release beside this script.
"""

import privest as pv

release = {table!r}
checked = pv.verify(release, allow_simulated=True)  # an error where table or header was changed
print(*checked.examined, *(f"not examined: {{one}}" for one in checked.not_examined), sep="\\n")

estimate = pv.estimate(release)
print(estimate.summary())
for name, value, (low, high) in zip(estimate.names, estimate.estimate, estimate.interval()):
    print(name, float(value), float(low), float(high), sep=",")
'''


@dataclass(frozen=True, eq=False)
class Exported:
    """A release of a work, and the plan that it was made of; None: it was there already."""

    work: Work
    table: Path
    plan: Plan | None

    def write_table(self, path: Path) -> None:
        """A copy of the table."""
        shutil.copyfile(self.table, path)

    def write_document(self, path: Path) -> None:
        """A copy of the signed document."""
        shutil.copyfile(document_path(self.table), path)

    def write_plan(self, path: Path) -> None:
        """The plan as stated; files are named, never where they lie."""
        assert self.plan is not None
        path.write_text(to_toml(_by_name(self.plan.spec)), encoding="utf-8")

    def write_script(self, path: Path) -> None:
        """A script that verifies the release and repeats the estimates."""
        text = PYTHON.format(table=self.table.name, version=privest.__version__)
        path.write_text(text, encoding="utf-8")

    def write_report(self, path: Path) -> None:
        """The page for people."""
        found = estimate_of(self.work, self.table)
        simulated = found.release.simulated
        commands = commands_of(PLAN, self.table.name, REPORT, simulated=simulated)
        save_report(self.plan, found, () if self.plan is None else commands, path)

    def write_all(self, path: Path) -> None:
        """All of it as one file."""
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            for what, (_, write) in FILES.items():
                if what == "all" or (what == "plan" and self.plan is None):
                    continue
                part = path.with_suffix(f".{what}")
                try:
                    write(self, part)
                    info = ZipInfo(self.name(what), STAMP)
                    info.compress_type, info.external_attr = ZIP_DEFLATED, 0o644 << 16
                    with archive.open(info, "w", force_zip64=True) as into, part.open("rb") as own:
                        shutil.copyfileobj(own, into)
                finally:
                    part.unlink(missing_ok=True)

    def name(self, what: str) -> str:
        """Of a file: that of a release is its own."""
        own = {"table": self.table.name, "document": document_path(self.table).name}
        fixed = {"plan": PLAN, "script": SCRIPT, "report": REPORT, "all": ARCHIVE}
        return (own | fixed)[what]


def _by_name(spec: Spec) -> Spec:
    return replace(spec, data=Path(spec.data).name)


# By the word in the address: the kind of the file, and who writes it.
FILES: dict[str, tuple[str, Callable[[Exported, Path], None]]] = {
    "table": ("application/octet-stream", Exported.write_table),
    "document": ("application/json", Exported.write_document),
    "report": ("text/html", Exported.write_report),
    "script": ("text/x-python", Exported.write_script),
    "plan": ("application/toml", Exported.write_plan),
    "all": ("application/zip", Exported.write_all),
}


def download(request: Request, work: Work, form: Form) -> Response:
    """One file of a release."""
    desk, what = desk_of(request), request.path_params["what"]
    table = released_of(work)
    plan = None if work.made is None else work.made.plan
    if table is None or what not in FILES or (what == "plan" and plan is None):
        raise HTTPException(404, "That is there after a release.")
    if not table.is_file() or not document_path(table).is_file():
        raise HTTPException(404, "The release is no longer where it was written.")
    kind, write = FILES[what]
    exported = Exported(work, table, plan)
    name = exported.name(what)
    path = desk.private_file(Path(name).suffix)
    try:
        write(exported, path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    gone = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type=kind, filename=name, background=gone)


ROUTES = [screen("/export/{what}", download, "export")]
