"""Registries of plugins by name: schedulers, collectors, objectives, model families.

Each kind of plugin has one group of entry points (``berth.schedulers``, ...). Berth's own plugins
are listed in the ``entry_points.ini`` of their folder (``pilot/``, ``plugin/``, ...), which
``pyproject.toml`` installs, too. Other packages declare theirs in their ``pyproject.toml``. A
plugin is imported when it is first used. Installed packages are searched only for names that Berth
itself lacks, or to list all names.

Another package cannot replace a name of Berth's own. A name that two other packages declare is
refused; the error names both packages. A plugin that cannot be imported is skipped and listed by
:meth:`Registry.problems`, which ``berth site doctor`` shows. A minimal registry::

    SHAPES: Registry[Shape] = Registry("berth.shapes", kind="shape", own=OWN)
    SHAPES.load("round")
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, cast

from berth.pilot.errors import BerthError, UsageError

T = TypeVar("T")

DISTRIBUTION = "berth"


class Entry(NamedTuple):
    """One entry point: its name, its ``module:attribute``, and the package that declares it."""

    name: str
    target: str
    distribution: str


class PluginProblem(NamedTuple):
    """A plugin that cannot be used: its group, its name, and the reason as one sentence."""

    group: str
    name: str
    text: str


def read_groups(text: str) -> dict[str, dict[str, str]]:
    """Return the entry points in a file's text: ``module:attribute`` by group and name."""
    groups: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            current = groups.setdefault(line.strip("[]"), {})
        elif line and line[0] not in "#;":
            name, _, target = line.partition("=")
            current[name.strip()] = target.partition("[")[0].strip()
    return groups


@cache
def installed(prefix: str = "berth.") -> Mapping[str, tuple[Entry, ...]]:
    """Return the entry points of all installed packages except Berth, by group (cached)."""
    from importlib.metadata import distributions  # noqa: PLC0415 - 30 ms, often not needed

    groups: dict[str, list[Entry]] = {}
    seen = {DISTRIBUTION}
    for distribution in distributions():
        text = distribution.read_text("entry_points.txt")
        if text is None or f"[{prefix}" not in text or distribution.name in seen:
            continue
        seen.add(distribution.name)
        for group, entries in read_groups(text).items():
            groups.setdefault(group, []).extend(
                Entry(name, target, distribution.name) for name, target in entries.items()
            )
    return {group: tuple(entries) for group, entries in groups.items()}


class Registry(Generic[T]):
    """Finds and imports the plugins of one group of entry points (``berth.schedulers``, ...).

    ``own``: file in the format of ``entry_points.txt`` with Berth's own plugins. ``needs``:
    attributes that a plugin of another package must have; if ``name`` is one of them, it must
    equal the name of the entry point. ``others``: function that returns the entry points of other
    packages, for tests; default: search the installed packages.
    """

    def __init__(
        self,
        group: str,
        *,
        kind: str,
        own: Path,
        needs: Iterable[str] = (),
        others: Callable[[], Iterable[Entry]] | None = None,
    ) -> None:
        self.group = group
        self.kind = kind
        self._own_file = own
        self._needs = tuple(needs)
        self._others = others or (lambda: installed().get(group, ()))
        self._loaded: dict[str, T] = {}
        self._failed: dict[str, PluginProblem] = {}
        self._own: dict[str, str] | None = None

    def own(self) -> tuple[str, ...]:
        """Return the names of Berth's own plugins, in the order of their file."""
        return tuple(self._targets())

    def names(self) -> tuple[str, ...]:
        """Return all usable names: Berth's own, then those of other packages, sorted.

        Names whose import failed, and names that two packages declare, are left out.
        """
        declared = {e.name for e in self._others()}.difference(self._targets(), self._failed)
        return (*self._targets(), *sorted(declared.difference(self._ambiguous())))

    def load(self, name: str) -> T:
        """Return the plugin called ``name``; it is imported at its first use.

        Raises UsageError for an unknown name (with the most similar known name), for a name that
        two packages declare (with both packages), and for a plugin that cannot be imported.
        """
        if name in self._loaded:
            return self._loaded[name]
        if name in self._targets():
            self._loaded[name] = cast(T, _resolve(self._targets()[name]))
            return self._loaded[name]
        problem = self._failed.get(name) or self._ambiguous().get(name)
        entry = next((e for e in self._others() if e.name == name), None)
        if problem is None and entry is not None:
            problem = self._try(entry)
        if problem is not None:
            raise UsageError(problem.text, hint="berth site doctor lists such packages")
        if entry is None:
            raise self._unknown(name)
        return self._loaded[name]

    def load_all(self, prefix: str = "") -> dict[str, T]:
        """Import all plugins whose names begin with ``prefix`` and return them by name;
        :meth:`problems` lists those that fail."""
        for entry in self._others():
            wanted = entry.name.startswith(prefix) and entry.name in self.names()
            if wanted and entry.name not in self._loaded:
                self._try(entry)
        return {name: self.load(name) for name in self.names() if name.startswith(prefix)}

    def problems(self) -> tuple[PluginProblem, ...]:
        """Import all plugins and return the problems of other packages' plugins that fail."""
        self.load_all()
        taken = [
            self._problem(e, f"is Berth's own name; that of the package {e.distribution} is unused")
            for e in self._others()
            if e.name in self._targets() and e.target != self._targets()[e.name]
        ]
        return (*taken, *self._ambiguous().values(), *self._failed.values())

    def _targets(self) -> dict[str, str]:
        if self._own is None:
            text = self._own_file.read_text(encoding="utf-8")
            self._own = read_groups(text).get(self.group, {})
        return self._own

    def _ambiguous(self) -> dict[str, PluginProblem]:
        by_name: dict[str, list[Entry]] = {}
        for entry in self._others():
            if entry.name not in self._targets():
                by_name.setdefault(entry.name, []).append(entry)
        return {
            name: self._problem(
                entries[0],
                f"is declared by {len(entries)} packages: "
                f"{', '.join(sorted(e.distribution for e in entries))}; remove all but one",
            )
            for name, entries in by_name.items()
            if len({e.target for e in entries}) > 1
        }

    def _try(self, entry: Entry) -> PluginProblem | None:
        """Import a plugin of another package; return why it cannot be used, or None if it can."""
        try:
            loaded = _resolve(entry.target)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            text = f"of the package {entry.distribution} cannot be imported: {reason}"
        else:
            wrong = self._what_is_wrong(entry.name, loaded)
            if wrong is None:
                self._loaded[entry.name] = cast(T, loaded)
                return None
            text = f"of the package {entry.distribution} {wrong}"
        return self._failed.setdefault(entry.name, self._problem(entry, text))

    def _what_is_wrong(self, name: str, loaded: object) -> str | None:
        absent = {need for need in self._needs if not hasattr(loaded, need)}
        absent.update(getattr(loaded, "__abstractmethods__", ()))
        if absent:
            return f"has no {', no '.join(sorted(absent))}"
        own_name = getattr(loaded, "name", name)
        if "name" in self._needs and own_name != name:
            return f"calls itself {own_name!r}"
        return None

    def _problem(self, entry: Entry, text: str) -> PluginProblem:
        return PluginProblem(self.group, entry.name, f"the {self.kind} {entry.name!r} {text}")

    def _unknown(self, name: str) -> BerthError:
        import difflib  # noqa: PLC0415 - of errors alone

        known = self.names()
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        listed = f"known: {', '.join(known)}"
        return UsageError(
            f"there is no {self.kind} {name!r}",
            hint=f"did you mean {near[0]!r}? {listed}" if near else listed,
        )


def public_names(protocol: type) -> tuple[str, ...]:
    """Return the public attribute and method names of a Protocol, for a Registry's ``needs``."""
    declared = {*getattr(protocol, "__annotations__", ()), *vars(protocol)}
    return tuple(sorted(name for name in declared if not name.startswith("_")))


def _resolve(target: str) -> object:
    module, _, attribute = target.partition(":")
    resolved: object = importlib.import_module(module)
    for part in attribute.split(".") if attribute else ():
        resolved = getattr(resolved, part)
    return resolved
