"""Let a program run on all files as they are, and drop what it writes.

The *view* is a mount namespace in which every file system is overlaid (overlayfs): the program
reads the files of the machine, and what it writes goes to a tmpfs, which ends with the shepherd.
Whatever path a program writes to (a link, an absolute path, its home folder), the user's files stay
as they are, and each run begins with the same files. Without the rights of an administrator the
view is made in a user namespace. Shared memory, servers and other machines are outside of it.

In a user namespace, a file system with others mounted on it cannot be overlaid as a whole. Its
folders with nothing mounted below are overlaid one by one, and its other folders are made anew.
"""

from __future__ import annotations

import ctypes
import encodings.ascii  # noqa: F401 - Python's own folder may be closed in the new namespace
import os
import stat

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
OF_THE_KERNEL = frozenset(
    (
        "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "debugfs", "tracefs",
        "securityfs", "pstore", "bpf", "fusectl", "configfs", "hugetlbfs", "binfmt_misc",
        "efivarfs", "nsfs",
    )
)  # fmt: skip
"""Types of file systems that hold no files of users; the program sees them as they are."""
MOST_BYTES = 4 << 30
"""Largest size of the tmpfs; it has at most a quarter of the free memory."""
MOST_NAMED = 1_000
FOR_ALL = "/var/tmp"  # noqa: S108 - nothing is written there  # nosec B108
"""Folder in which all users write, below the first level: overlaid by itself."""
_ESCAPED = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\043": "#", r"\134": "\\"}
"""How the kernel writes these characters of paths, the backslash last."""


class Isolation:
    """All files of the machine, for one run; made in the process that calls, which must have one
    thread, in a new mount namespace.

    ``base`` is an empty folder; ``kept`` are folders that the program writes in for good;
    ``shared`` are folders that may be another user's. Raises OSError where the kernel does not
    allow it.
    """

    def __init__(self, base: str, kept: list[str], shared: list[str]) -> None:
        self.base, self.root = base, f"{base}/root"
        self.overlaid: list[tuple[str, str]] = []
        """(folder, folder of what was written below it)"""
        self._options = _own_namespace()
        _call("mount", "none", "/", None, MS_REC | MS_PRIVATE, None)
        self._mounts = _mounted()
        _call("mount", "berth", base, "tmpfs", 0, f"size={_room_bytes()},mode=755")
        os.mkdir(self.root)
        _call("mount", self.root, self.root, None, MS_BIND, None)
        self._show("/")
        if self._options:
            for folder in sorted({os.path.realpath(name) for name in (*shared, FOR_ALL)}):
                self._show_again(folder)
        for folder in kept:
            os.makedirs(self.root + folder, exist_ok=True)
            _call("mount", folder, self.root + folder, None, MS_BIND, None)

    def _show(self, path: str) -> None:
        """Put the folder ``path`` into the view."""
        target = self.root + (path if path != "/" else "")
        kind = self._mounts.get(path)
        os.makedirs(target, exist_ok=True)
        if kind in OF_THE_KERNEL or path == "/dev":
            _call("mount", path, target, None, MS_BIND | MS_REC, None)
            return
        start = path.rstrip("/") + "/"
        inside = [name.removeprefix(start) for name in self._mounts if name.startswith(start)]
        below = {name.split("/")[0] for name in inside}
        if not below - {""}:
            self._overlay(path, target)
            return
        os.chmod(target, stat.S_IMODE(os.stat(path).st_mode) | 0o700)
        for name in below if kind == "autofs" else {*below, *_names(path)}:
            if name:
                self._show_entry(start + name)

    def _show_again(self, folder: str) -> None:
        """Overlay ``folder`` by itself where it is another user's: in a user namespace, overlayfs
        cannot copy it up to write in it."""
        if not os.access(folder, os.W_OK) or os.stat(folder).st_uid == os.getuid():
            return
        shown = [*self._mounts, *(path for path, _ in self.overlaid)]
        if not any(f"{path}/".startswith(f"{folder}/") for path in shown):
            self._overlay(folder, self.root + folder)

    def _show_entry(self, path: str) -> None:
        target = self.root + path
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return
        if stat.S_ISDIR(mode):
            self._show(path)
        elif stat.S_ISLNK(mode):
            os.symlink(os.readlink(path), target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
            _call("mount", path, target, None, MS_BIND, None)

    def _overlay(self, path: str, target: str) -> None:
        place = f"{self.base}/{len(self.overlaid)}"
        upper, work = f"{place}/upper", f"{place}/work"
        for folder in (place, upper, work):
            os.mkdir(folder)
        status = os.stat(path)
        os.chmod(upper, stat.S_IMODE(status.st_mode) | 0o700)
        if os.getuid() == 0:
            os.chown(upper, status.st_uid, status.st_gid)
        # The option's own syntax does not take every name: a descriptor stands for the folder.
        lower = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        options = f"lowerdir=/proc/self/fd/{lower},upperdir={upper},workdir={work}{self._options}"
        try:
            _call("mount", "overlay", target, "overlay", 0, options)
            self.overlaid.append((path.rstrip("/"), upper))
        except OSError:
            if not os.statvfs(path).f_flag & os.ST_RDONLY:
                raise
            _call("mount", path, target, None, MS_BIND, None)
        finally:
            os.close(lower)

    def enter(self, folder: str) -> None:
        """Make the view the root of the process that calls, and ``folder`` its working folder."""
        _call("unshare", CLONE_NEWNS)
        os.chdir(self.root)
        _call("mount", ".", "/", None, MS_MOVE, None)
        os.chroot(".")
        os.chdir(folder)

    def written(self) -> list[str]:
        """Return the files that were made, changed or removed in the view, at most MOST_NAMED."""
        paths: list[str] = []
        for folder, upper in self.overlaid:
            for where, _, names in os.walk(upper):
                inside = where[len(upper) :]
                paths += (f"{folder}{inside}/{name}" for name in sorted(names))
                if len(paths) >= MOST_NAMED:
                    return paths[:MOST_NAMED]
        return paths

    def is_full(self) -> bool:
        """Return whether what was written took all the room for it."""
        room = os.statvfs(self.base)
        return room.f_bfree < max(16, room.f_blocks // 1_000)


def _own_namespace() -> str:
    """Move the process into a new mount namespace; return overlayfs' option for it."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        _call("unshare", CLONE_NEWNS)
        return ""
    _call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
    ):  # fmt: skip
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as stream:
            stream.write(text)
    return ",userxattr"


def _mounted() -> dict[str, str]:
    """Return the type of the file system that is mounted on each path."""
    kinds = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            path = before.split()[4]
            for code, character in _ESCAPED.items():
                path = path.replace(code, character)
            kinds[path] = after.split()[0]
    return kinds


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _room_bytes() -> int:
    """Return the size of the tmpfs: a quarter of the memory that is free on the machine."""
    free = 0
    with open("/proc/meminfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    return min(MOST_BYTES, free // 4)


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [os.fsencode(word) if isinstance(word, str) else word for word in arguments]
    if name == "mount":
        words[3] = ctypes.c_ulong(words[3])  # type: ignore[arg-type]
    if getattr(libc, name)(*words) != 0:
        number = ctypes.get_errno()
        shown = " ".join(word for word in arguments[:2] if isinstance(word, str))
        raise OSError(number, os.strerror(number), f"{name} {shown}".strip())
