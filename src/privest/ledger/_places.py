"""Where a ledger may be: a file of its owner alone, on a disk of this machine."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from privest.errors import LedgerError

MOUNTS = Path("/proc/self/mountinfo")
# File systems of other machines: their locks and their fsync are not to be relied upon.
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph-fuse", "fuse.davfs2",
    "fuse.glusterfs", "fuse.gvfsd-fuse", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3",
    "smbfs", "vboxsf", "virtiofs", "vmhgfs",
}  # fmt: skip


def file_system(path: Path) -> str | None:
    """The kind of file system that holds a path; None where the system does not tell (no Linux)."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    target, best, kind = os.fspath(path.resolve()), "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), before.split(" ")[4])
        inside = place == "/" or target == place or target.startswith(f"{place}/")
        if inside and len(place) >= len(best):  # the last of equal ones is on top
            best, kind = place, after.split(" ")[0]
    return kind


def require_local(path: Path) -> None:
    """Refuse a network file system."""
    kind = file_system(path)
    if kind in NETWORK:
        raise LedgerError(
            f"{path} is on a network file system ({kind}), where locks and fsync may not hold: two "
            "machines could spend one budget. Keep the ledger on a disk of this machine."
        )


def require_private(path: Path) -> None:
    """Refuse what is no file, can be read by others, or cannot be written."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be opened: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise LedgerError(f"{path} is not a file, hence no ledger.")
    if mode & 0o077:
        raise LedgerError(
            f"the ledger {path} can be read by others, and holds a key: chmod 600 {path}."
        )
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            raise LedgerError(
                f"{place} is read-only: nothing can be spent, so nothing is released."
            )
