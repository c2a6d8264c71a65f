"""A disk in memory that loses what was not forced to it, and SQLite on it.

Faults: a process is killed before any call; the power fails, and of the writes that were not
forced any subset survives, each perhaps in part; names in a folder survive up to any moment since
that folder was forced, in their order, as file systems with a journal have it; the disk is full for
a while. Not: bits that flip at rest, a disk that says that it forced and did not, locks that do not
hold (network disks).
"""

import errno
import os
import random
import stat
from types import SimpleNamespace

import apsw

SECTOR = 512  # bytes: a write is cut between them
FOLDERS = ("/sim", "/sim/marks", "/sim/documents")
SHARED, RESERVED, EXCLUSIVE = 1, 2, 4  # PENDING is 3


class Killed(BaseException):
    """The process is gone; nothing that it does after this has an effect."""


class File:
    """An inode: what programs see, and what is on the disk."""

    def __init__(self, number, mode=0o600):
        self.number, self.mode = number, mode
        self.seen = self.forced = b""
        self.writes = []  # since it was forced: (at, data) or (size, None)

    def copy(self):
        twin = File(self.number, self.mode)
        twin.seen, twin.forced, twin.writes = self.seen, self.forced, list(self.writes)
        return twin

    def write(self, at, data):
        self.seen = _written(self.seen, at, data)
        self.writes.append((at, data))

    def force(self):
        self.forced, self.writes = self.seen, []

    def lose_power(self, choice):
        """Any subset of the writes survives, in any order of sectors, each perhaps in part."""
        content = self.forced
        for at, data in self.writes:
            survives = choice.random()
            if survives < 0.4:
                continue
            if data is not None and survives < 0.7:
                cut = choice.randrange(0, len(data) + SECTOR, SECTOR)
                at, data = (at, data[:cut]) if survives < 0.55 else (at + cut, data[cut:])
                if not data:
                    continue
            content = _written(content, at, data)
        self.seen = self.forced = content
        self.writes = []


def _written(content, at, data):
    if data is None:
        return content[:at].ljust(at, b"\0")
    return content[:at].ljust(at, b"\0") + data + content[at + len(data) :]


class Process:
    """A process: whether it lives, and what happens at one of its calls."""

    def __init__(self, faults=None, outer=None):
        self.dead, self.calls, self.faults, self.outer = False, 0, faults or {}, outer


class Disk:
    def __init__(self):
        self.files, self.names, self.forced_names = {}, {}, {}
        self.changes = []  # (folder, its names after a change) since the folder was forced
        self.locks, self.process, self.next, self.full = {}, Process(), 1, 0
        self.clock = 1_800_000_000

    def copy(self):
        """The same disk; no process has anything open."""
        twin = Disk()
        twin.files = {number: file.copy() for number, file in self.files.items()}
        twin.names, twin.forced_names = dict(self.names), dict(self.forced_names)
        twin.changes, twin.next, twin.clock = list(self.changes), self.next, self.clock
        return twin

    def call(self, process=None, *, grows=False):
        """Every call of a process goes through here."""
        process = process or self.process
        if process.dead:
            raise Killed
        process.calls += 1
        fault = process.faults.pop(process.calls, None)
        if fault is not None:
            fault()
            if process.dead:
                raise Killed
        if grows and self.full > 0:
            self.full -= 1
            raise OSError(errno.ENOSPC, "No space left on device")

    def kill(self, process=None):
        process = process or self.process
        process.dead = True
        for holders in self.locks.values():
            for file in [f for f in holders if f.process is process]:
                del holders[file]

    def lose_power(self, seed):
        """All processes end, and what was not forced is lost, or not."""
        choice = random.Random(seed)
        self.names = {}
        for folder in FOLDERS:
            moments = [names for place, names in self.changes if place == folder]
            self.names |= choice.choice([_within(self.forced_names, folder), *moments])
        self.force_names()
        for file in self.files.values():
            file.lose_power(choice)
        self.locks = {}

    def file(self, name):
        try:
            return self.files[self.names[str(name)]]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name) from None

    def create(self, name):
        file = File(self.next)
        self.next += 1
        self.files[file.number] = file
        if name is not None:
            self.names[str(name)] = file.number
            self.renamed(name)
        return file

    def renamed(self, path):
        folder = os.path.dirname(path)
        self.changes.append((folder, _within(self.names, folder)))

    def force_names(self, folder=None):
        """The names in a folder to the disk; all of them where none is named."""
        gone = [name for name in self.forced_names if folder in (None, os.path.dirname(name))]
        for name in gone:
            del self.forced_names[name]
        self.forced_names |= self.names if folder is None else _within(self.names, folder)
        self.changes = [change for change in self.changes if folder not in (None, change[0])]


def _within(names, folder):
    return {name: file for name, file in names.items() if os.path.dirname(name) == folder}


class Os:
    """The part of the module `os` that the core uses, on a disk in memory."""

    environ, name = {}, "posix"

    def __init__(self, disk_of):
        self.disk_of, self.open_files = disk_of, {}

    def __getattr__(self, name):
        return getattr(os, name)

    @property
    def disk(self):
        return self.disk_of()

    def open(self, path, flags, mode=0o777):
        disk = self.disk
        disk.call(grows=bool(flags & os.O_CREAT))
        if str(path) in FOLDERS:
            opened = str(path)
        elif flags & os.O_CREAT:
            if flags & os.O_EXCL and str(path) in disk.names:
                raise FileExistsError(errno.EEXIST, "File exists", path)
            opened = disk.create(path)
        else:
            opened = disk.file(path)
        descriptor = 1000 + len(self.open_files)
        self.open_files[descriptor] = [opened, 0]
        return descriptor

    def read(self, descriptor, count):
        self.disk.call()
        file, at = self.open_files[descriptor]
        data = file.seen[at : at + count]
        self.open_files[descriptor][1] += len(data)
        return data

    def write(self, descriptor, data):
        self.disk.call(grows=True)
        file, at = self.open_files[descriptor]
        file.write(at, bytes(data))
        self.open_files[descriptor][1] += len(data)
        return len(data)

    def lseek(self, descriptor, at, whence):
        self.open_files[descriptor][1] = at

    def fsync(self, descriptor):
        disk = self.disk
        disk.call()
        file = self.open_files[descriptor][0]
        if isinstance(file, str):
            disk.force_names(file)
        else:
            file.force()

    def close(self, descriptor):
        pass

    def stat(self, path):
        self.disk.call()
        file = self.disk.file(path)
        mode = stat.S_IFREG | file.mode
        return SimpleNamespace(
            st_mode=mode, st_ino=file.number, st_dev=7, st_size=len(file.seen), st_uid=os.geteuid()
        )

    def replace(self, source, target):
        disk = self.disk
        disk.call()
        disk.names[str(target)] = disk.file(source).number
        del disk.names[str(source)]
        disk.renamed(target)

    def link(self, source, target):
        disk = self.disk
        disk.call(grows=True)
        if str(target) in disk.names:
            raise FileExistsError(errno.EEXIST, "File exists", target)
        disk.names[str(target)] = disk.file(source).number
        disk.renamed(target)

    def unlink(self, path):
        disk = self.disk
        disk.call()
        disk.file(path)
        del disk.names[str(path)]
        disk.renamed(path)

    def listdir(self, folder):
        self.disk.call()
        start = f"{folder}/"
        return [name.removeprefix(start) for name in self.disk.names if name.startswith(start)]

    def makedirs(self, path, exist_ok=False):
        self.disk.call()


class Vfs(apsw.VFS):
    """SQLite's files on the disk; as SQLite's own on Unix, a new journal forces its folder too."""

    def __init__(self, disk_of, name="simulated"):
        self.disk_of = disk_of
        super().__init__(name, "")

    def xOpen(self, name, flags):
        disk = self.disk_of()
        disk.call(grows=bool(flags[0] & apsw.SQLITE_OPEN_CREATE))
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        journal = bool(flags[0] & apsw.SQLITE_OPEN_MAIN_JOURNAL)
        if path is None or (path not in disk.names and flags[0] & apsw.SQLITE_OPEN_CREATE):
            file = disk.create(path)
        elif path in disk.names:
            file = disk.file(path)
        else:
            raise apsw.CantOpenError
        flags[1] = flags[0]
        return OpenFile(disk, file, new_journal=journal)

    def xDelete(self, name, sync):
        disk = self.disk_of()
        disk.call()
        if disk.names.pop(name, None) is None:
            raise apsw.IOError
        disk.renamed(name)
        if sync:
            disk.call()
            disk.force_names(os.path.dirname(name))

    def xAccess(self, name, flags):
        return name in self.disk_of().names

    def xFullPathname(self, name):
        return name


class OpenFile:
    def __init__(self, disk, file, *, new_journal):
        self.disk, self.file, self.process = disk, file, disk.process
        self.new_journal = new_journal

    def xRead(self, count, at):
        if self.process.dead:
            raise apsw.IOError
        return self.file.seen[at : at + count]

    def xWrite(self, data, at):
        self._call(grows=True)
        self.file.write(at, bytes(data))

    def xTruncate(self, size):
        self._call()
        self.file.write(size, None)

    def xSync(self, flags):
        self._call()
        self.file.force()
        if self.new_journal:
            self.disk.force_names("/sim")
            self.new_journal = False

    def xFileSize(self):
        return len(self.file.seen)

    def xClose(self):
        self._holders().pop(self, None)

    def xLock(self, level):
        self._call()  # another process may come before the lock
        holders = self._holders()
        others = max((held for file, held in holders.items() if file is not self), default=0)
        free = {SHARED: others < 3, RESERVED: others < RESERVED, EXCLUSIVE: others == 0}
        if not free.get(level, True):
            raise apsw.BusyError
        holders[self] = level

    def xUnlock(self, level):
        self._holders().pop(self, None)
        if level:
            self._holders()[self] = level

    def xCheckReservedLock(self):
        return any(held >= RESERVED for held in self._holders().values())

    def xFileControl(self, op, pointer):
        return False

    def xSectorSize(self):
        return SECTOR

    def xDeviceCharacteristics(self):
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # as SQLite says of Unix

    def _holders(self):
        return self.disk.locks.setdefault(self.file.number, {})

    def _call(self, *, grows=False):
        try:
            self.disk.call(self.process, grows=grows)
        except Killed:
            raise apsw.IOError from None
        except OSError:
            raise apsw.FullError from None


def sqlite_on(vfs_name):
    """The part of the module `sqlite3` that the core uses."""

    def connect(path, **options):
        return apsw.Connection(
            path.removeprefix("file://").split("?")[0],
            flags=apsw.SQLITE_OPEN_READWRITE,
            vfs=vfs_name,
        )

    refused = (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.SQLError)
    return SimpleNamespace(
        connect=connect, Error=apsw.Error, OperationalError=refused, Connection=apsw.Connection
    )
