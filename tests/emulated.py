"""Other systems, emulated in this process before privest is imported: `EMULATE=windows pytest …`.

windows  `fcntl`, owners, links and some calls of POSIX are absent; locks are those of `msvcrt`; an
         open file can be neither moved nor deleted; a rename is never over another file; numbers of
         disks have 64 bits and those of files 128; temporary files are in the user's own folder.
browser  as Pyodide has it: no `fcntl`, no threads, no processes, `sys.platform` is "emscripten",
         and none of the modules that it leaves out.
"""

import asyncio  # noqa: F401 - what needs the names that go is imported before
import errno
import fcntl
import multiprocessing.pool  # noqa: F401
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import types

ABSENT = {
    "windows": ["O_NOFOLLOW", "fchmod", "fork", "geteuid", "link", "pread", "pwrite"],
    "browser": ["O_NOFOLLOW", "fork", "geteuid", "link"],
}
# Before its version 314 Pyodide has no lzma and sqlite3 either, unless they are loaded.
NO_MODULES = [
    "grp", "lzma", "msvcrt", "pwd", "resource", "sqlite3", "ssl", "syslog", "termios",
]  # fmt: skip


AFTER_TEN = ("st_atime", "st_mtime", "st_ctime", "st_bl", "st_rdev")  # not items of a stat_result


def emulate(system):
    for name in ABSENT[system]:
        delattr(os, name)
    if system == "windows":
        sys.modules["msvcrt"] = _msvcrt()
        os.environ["HOME"] = tempfile.gettempdir()
        os.replace = _closed(os.replace)
        os.unlink = os.remove = _closed(os.unlink)
        os.rename = _never_over(_closed(os.rename))
        os.stat, os.lstat, os.fstat = map(_long_numbers, (os.stat, os.lstat, os.fstat))
        shutil._use_fd_functions = False  # of Python 3.14 the next one
        shutil._rmtree_impl = shutil._rmtree_unsafe
    else:
        import numpy  # noqa: F401 - they look at the platform when they are built, not when they run
        import scipy.optimize
        import scipy.stats  # noqa: F401

        sys.modules |= dict.fromkeys(NO_MODULES)
        sys.platform = "emscripten"
        threading.Thread.start = subprocess.Popen.__init__ = _impossible
    sys.modules["fcntl"] = None


def _impossible(*_, **__):
    raise RuntimeError("can't start new thread")


def _msvcrt():
    def locking(descriptor, mode, size):
        assert (mode, size) == (2, 1)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    return types.SimpleNamespace(locking=locking, LK_NBLCK=2)


def _long_numbers(call):
    def stat(*path, **options):
        found = call(*path, **options)
        mode, inode, device, *others = found
        more = {name: getattr(found, name) for name in dir(found) if name.startswith(AFTER_TEN)}
        return os.stat_result((mode, inode + 2**127, device + 2**63, *others), more)

    return stat


def _is_open(path):
    path, held = os.path.realpath(path), []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            held.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue  # the folder's own descriptor
    return path in held


def _closed(call):
    def only_closed(path, *more, **options):
        if "dir_fd" not in options and _is_open(path):
            raise PermissionError(errno.EACCES, "used by another process", os.fspath(path))
        return call(path, *more, **options)

    return only_closed


def _never_over(call):
    def new_only(path, target, **options):
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, "File exists", os.fspath(target))
        return call(path, target, **options)

    return new_only
