"""The files of a support bundle, from which a maintainer can understand an installation.

Programs' arguments, scripts and profiles are left out. Names of users and accounts are replaced by
``user-1``, ``account-2`` ... unless the caller asks for real names.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import platform
import pwd
import re
import shutil
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import cache, cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from berth.pilot.errors import BerthError
from berth.pilot.version import VERSION
from berth.plugin.daemon.client import ask
from berth.plugin.doctor.examine import examine
from berth.plugin.scheduler import SCHEDULERS
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.site import Site
from berth.plugin.store import DecisionRecord, Store

SYSTEM_USERS = frozenset(("root", "berth", "munge", "nobody", *SCHEDULERS.names()))
_IN_URL = re.compile(r"(://[^:/@\s\"']*):[^\s\"']+@")
"""Matches up to the last ``@``, because a password may contain ``@`` and ``/``."""
_NAMED = re.compile(r"(?i)((?:password|passwd|secret|token|api_?key)\s*[=:]\s*[\"']?)[^\s\"'&]+")
RECENT = 200
"""Number of the newest decisions and outcomes that are included."""
LOG_LINES = 500
_LOG_S = 20.0
_FIRST_PERSON = 1000
"""Lowest uid of ordinary users."""
_NOT_TAKEN = ("request", "edits", "ranked")
_BEFORE_VALUE = re.compile(r"\s*=")
_LOG_KEYS = frozenset(("action", "chosen", "code", "decision", "latency_us", "user", "workload"))
_TABLE = re.compile(r"\s*\[\[?[\w.-]+\]\]?\s*(?:#.*)?", re.DOTALL)
"""Matches the head of a table in the site file, which names no user."""
_USER_IN_LOG = re.compile(r"\buser=([^\s=]+)")
Names = tuple[set[str], set[str]]
"""A pair: the names of users, and the names of accounts."""


class Pseudonyms:
    """Replaces names by pseudonyms: the same name always by the same pseudonym."""

    def __init__(self, users: Iterable[str], accounts: Iterable[str] = ()) -> None:
        self._of: dict[str, str] = {}
        for kind, names in (("user", users), ("account", accounts)):
            for name in sorted({n for n in names if n} - SYSTEM_USERS - set(self._of)):
                self._of[name] = f"{kind}-{len(self._of) + 1}"
        longest_first = sorted(self._of, key=len, reverse=True)
        inside = "|".join(map(re.escape, longest_first))
        self._in_any_case = {name.casefold(): pseudonym for name, pseudonym in self._of.items()}
        words = rf"(?<![^\W_])(?:{inside})(?![^\W_])"
        self._pattern = re.compile(words, re.IGNORECASE) if inside else None

    def text(self, text: str) -> str:
        """Return ``text`` with the names of users and accounts replaced where they stand as words.

        Upper and lower case do not matter; parts of file names are replaced too:
        ``Alice_bert-2.onnx``. Keys (``mode = ...``) and heads of tables are kept.
        """
        if self._pattern is None:
            return text
        replaced = (
            line if _TABLE.fullmatch(line) else self._pattern.sub(self._said, line)
            for line in text.splitlines(keepends=True)
        )
        return "".join(replaced)

    def _said(self, match: re.Match[str]) -> str:
        name = match[0]
        if name in _own_keys() and _BEFORE_VALUE.match(match.string, match.end()):
            return name
        return self._of.get(name) or self._in_any_case.get(name.casefold(), "user")

    def data(self, data: Any) -> Any:
        """Return plain data with the names replaced in all texts; mapping keys are not changed."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {key: self.data(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(value) for value in data]
        return data


@cache
def _own_keys() -> frozenset[str]:
    """Return the keys of the site file's tables, and of the log: a user may bear the same name."""
    keys = set(_LOG_KEYS)
    models: list[type[BaseModel]] = [SiteDocument]
    while models:
        for name, field in models.pop().model_fields.items():
            keys.add(name)
            types = (field.annotation, *get_args(field.annotation))
            models += [t for t in types if isinstance(t, type) and issubclass(t, BaseModel)]
    return frozenset(keys)


def without_passwords(text: str) -> str:
    """Return ``text`` with passwords as ``***``: ``postgresql://berth:***@host``,
    ``password=***``."""
    return _NAMED.sub(r"\1***", _IN_URL.sub(r"\1:***@", text))


def gather(site: Site, *, with_names: bool = False) -> dict[str, str]:
    """Return the support bundle's texts by file name; where a part cannot be read, its text is
    the reason."""
    with closing(_OpenedStore(site)) as stored:
        texts = _gathered(site, stored)
        if not with_names:
            hide = Pseudonyms(*_names(site, stored, texts))
            texts = {name: hide.data(content) for name, content in texts.items()}
    return {name: without_passwords(_text(content)) for name, content in texts.items()}


def _gathered(site: Site, stored: _OpenedStore) -> dict[str, object]:
    parts: dict[str, Callable[[], object]] = {
        "about.json": _about,
        "doctor.json": lambda: [dataclasses.asdict(finding) for finding in examine(site)],
        "berth.toml": lambda: Path(site.source).read_text(errors="replace"),
        "scheduler.json": lambda: _cluster(site),
        "daemon.json": lambda: ask(site.daemon.socket, {"v": 1, "op": "stats"}),
        "store.json": stored.summary,
        "decisions.json": stored.decisions,
        "outcomes.json": stored.outcomes,
        "log.txt": _log,
    }
    return {name: _guarded(make) for name, make in parts.items()}


def write_archive(texts: Mapping[str, str], target: Path) -> None:
    """Write the texts to a new ``.tar.gz`` that only its owner can read. Raises BerthError."""
    name = target.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    try:
        handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise BerthError(f"{target} is there already", hint="give another name") from None
    except OSError as error:
        raise BerthError(f"{target} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for file, text in texts.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))


def _guarded(make: Callable[[], object]) -> object:
    try:
        return make()
    except BerthError as error:
        return f"could not be read: {error.message}"
    except OSError as error:
        return f"could not be read: {error.filename}: {error.strerror}"


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content, indent=1, default=str)


def _about() -> dict[str, Any]:
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    return {
        "berth": VERSION,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": dict(sorted(packages.items())),
    }


def _cluster(site: Site) -> dict[str, Any]:
    """Return the scheduler's queues, and the number of nodes of each kind."""
    facts = open_scheduler(site).read()
    kinds = Counter(
        (n.queues, n.usable, n.cores, n.memory_bytes, n.features, tuple(sorted(n.gpus.items())))
        for n in facts.nodes
    )
    columns = ("queues", "usable", "cores", "memory_bytes", "features", "gpus")
    return {
        "version": facts.version,
        "queues": [dataclasses.asdict(queue) for queue in facts.queues.values()],
        "nodes": [{**dict(zip(columns, k, strict=True)), "count": n} for k, n in kinds.items()],
    }


class _OpenedStore:
    """The store, opened at the first use. Its properties raise BerthError where the store cannot
    be read."""

    def __init__(self, site: Site) -> None:
        self._url = site.daemon.store

    @cached_property
    def store(self) -> Store:
        return Store.reading(self._url, check=False)

    @cached_property
    def last(self) -> list[DecisionRecord]:
        """Return the newest decisions."""
        return list(self.store.decisions.last(RECENT))

    def summary(self) -> dict[str, Any]:
        changes = self.store.changes_since(0)
        return {
            "name": self.store.name,
            "revision": changes.revision,
            "workloads": len(changes.workloads),
            "kinds": Counter(record.kind for record in self.store.workloads()),
            "forecasts": Counter(record.bundle for record in changes.forecasts),
            "decisions": self.store.decisions.count(),
        }

    def decisions(self) -> list[dict[str, Any]]:
        rows = map(dataclasses.asdict, self.last)
        return [{k: v for k, v in row.items() if k not in _NOT_TAKEN} for row in rows]

    def outcomes(self) -> list[dict[str, Any]]:
        ended = self.store.outcomes.of_decisions([record.id for record in self.last]).values()
        return [dataclasses.asdict(outcome) for outcomes in ended for outcome in outcomes]

    def names(self) -> Names:
        """Return the users and accounts in the store's records."""
        users = {record.user for record in self.last}
        users.update(record.owner for record in self.store.workloads())
        return users, {record.account or "" for record in self.last}

    def close(self) -> None:
        if "store" in vars(self):
            self.store.close()


def _log() -> str:
    if shutil.which("journalctl") is None:
        return "could not be read: there is no journalctl"
    words = ("journalctl", "-u", "berth", "-n", str(LOG_LINES), "--no-pager", "-o", "short-iso")
    try:
        done = subprocess.run(words, capture_output=True, timeout=_LOG_S, check=False)
    except subprocess.TimeoutExpired:
        return f"could not be read: journalctl took more than {_LOG_S:g} s"
    return done.stdout.decode("utf-8", "replace")


def _names(site: Site, stored: _OpenedStore, gathered: Mapping[str, object]) -> Names:
    """Return the users and accounts that occur in the store, the site file, this host, the
    scheduler's queues and the log."""
    users = {person.pw_name for person in pwd.getpwall() if person.pw_uid >= _FIRST_PERSON}
    accounts: set[str] = set()
    coverage = site.coverage
    users |= {*site.daemon.admins, *site.right_sizing.users}
    users |= {*coverage.users.include, *coverage.users.exclude}
    accounts |= {*coverage.accounts.include, *coverage.accounts.exclude}
    for candidate in site.candidates:
        users |= candidate.allowed_users or frozenset()
        accounts |= candidate.allowed_accounts or frozenset()
    cluster = gathered["scheduler.json"]
    if isinstance(cluster, Mapping):
        for queue in cluster["queues"]:
            accounts |= set(queue["allowed_accounts"] or ())
    users |= set(_USER_IN_LOG.findall(str(gathered["log.txt"])))
    try:
        of_jobs, of_accounts = stored.names()
    except (BerthError, OSError):
        return users, accounts
    return users | of_jobs, accounts | of_accounts
