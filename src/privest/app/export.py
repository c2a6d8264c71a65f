"""Export: the release and its header, the plan, a script, the report; each, or all as one file.

A file that is written for a download is removed once it was sent.
"""

from __future__ import annotations

import shutil
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
from privest.app.results import released_of, results_of
from privest.report.page import report
from privest.workflow.commands import commands_of
from privest.workflow.document import document_path
from privest.workflow.plan import Plan
from privest.workflow.spec import to_toml

PLAN, SCRIPT, REPORT, ARCHIVE = "plan.toml", "estimate.py", "report.html", "privest.zip"
STAMP = (1980, 1, 1, 0, 0, 0)  # of files in the archive: the same work gives the same bytes
PYTHON = '''"""Estimates from a release, as the app of privest {version} showed them.

Needs privest (pip install privest), and the files of the release beside this script.
"""

import privest as pv

release = {table!r}
checked = pv.verify(release, allow_simulated=True)  # an error where it was changed
print(*checked.examined, *(f"not examined: {{one}}" for one in checked.not_examined), sep="\\n")

estimate = pv.estimate(release)
print(estimate.summary())
for name, value, (low, high) in zip(estimate.names, estimate.value, estimate.interval()):
    print(name, float(value), float(low), float(high), sep=",")
'''


KINDS = {
    "table": "application/octet-stream", "document": "application/json", "report": "text/html",
    "script": "text/x-python", "plan": "application/toml", "all": "application/zip",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Export:
    """A release of a work, and the plan that it was made of; None: it was there already."""

    work: Work
    table: Path
    plan: Plan | None

    @property
    def names(self) -> dict[str, str]:
        """The names of the files, by the word in their address."""
        found = {"document": document_path(self.table).name, "report": REPORT, "script": SCRIPT}
        if self.plan is not None:
            found["plan"] = PLAN
        if found["document"] != self.table.name:
            found = {"table": self.table.name, **found}
        return found

    def write(self, what: str, path: Path) -> None:
        """One of the files; none of them says where a file lies."""
        if what == "table":
            shutil.copyfile(self.table, path)
        elif what == "document":
            shutil.copyfile(document_path(self.table), path)
        elif what == "script":
            text = PYTHON.format(table=self.table.name, version=privest.__version__)
            path.write_text(text, encoding="utf-8")
        elif what == "plan" and self.plan is not None:
            spec = replace(self.plan.spec, data=Path(self.plan.spec.data).name)
            path.write_text(to_toml(spec), encoding="utf-8")
        elif what == "report":
            found, _ = results_of(self.work, self.table, self.plan)
            steps = commands_of(PLAN, self.table.name, REPORT, simulated=found.release.simulated)
            commands = () if self.plan is None else steps
            report(found, path, plan=self.plan, commands=commands)
        else:
            self._write_all(path)

    def _write_all(self, path: Path) -> None:
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            for what, name in self.names.items():
                part = path.with_suffix(f".{what}")
                try:
                    self.write(what, part)
                    info = ZipInfo(name, STAMP)
                    info.compress_type, info.external_attr = ZIP_DEFLATED, 0o644 << 16
                    with archive.open(info, "w", force_zip64=True) as into, part.open("rb") as own:
                        shutil.copyfileobj(own, into)
                finally:
                    part.unlink(missing_ok=True)


def download(request: Request, work: Work, form: Form) -> Response:
    what, (table, plan) = request.path_params["what"], released_of(work)
    if table is None:
        raise HTTPException(404, "That is there after a release.")
    export = Export(work, table, plan)
    name = (export.names | {"all": ARCHIVE}).get(what)
    if name is None:
        raise HTTPException(404, "That is there after a release.")
    if not table.is_file() or not document_path(table).is_file():
        raise HTTPException(404, "The release is no longer where it was written.")
    path = desk_of(request).private_file(Path(name).suffix)
    try:
        export.write(what, path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    gone = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type=KINDS[what], filename=name, background=gone)


ROUTES = [screen("/export/{what}", download, "export")]
