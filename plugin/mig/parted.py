"""mig-parted's YAML, read and written in its own words.

``version: v1``, ``mig-configs`` with named lists of ``devices``, ``device-filter``,
``mig-enabled`` and ``mig-devices``. Fields that the format does not have are refused by name, as
mig-parted does. Source of the format: NVIDIA/mig-parted, api/spec/v1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, ToolMissing
from berth.policies.mig import Geometry, Layout

MAX_BYTES = 1024 * 1024
_TOP = ("version", "mig-configs")
_ENTRY = ("device-filter", "devices", "mig-enabled", "mig-devices")
_RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_FILTER = re.compile(r"0x[0-9A-Fa-f]{8}")


@dataclass(frozen=True, slots=True)
class Entry:
    """What some devices of a node are to look like."""

    devices: tuple[int, ...] | None
    """Device numbers; None: all."""
    mig_enabled: bool
    mig_devices: Mapping[str, int] = field(default_factory=dict)
    device_filter: tuple[str, ...] = ()

    def covers(self, index: int, geometry: Geometry) -> bool:
        """Tell whether the entry is about device ``index``, which is such a GPU."""
        filters = {f.lower() for f in self.device_filter}
        if filters and not filters & {f.lower() for f in geometry.device_filters}:
            return False
        return self.devices is None or index in self.devices


@dataclass(frozen=True, slots=True)
class Config:
    """A whole file: lists of entries by name."""

    configs: Mapping[str, tuple[Entry, ...]]
    source: str = "mig-parted configuration"

    def named(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of one configuration. Raises DocumentError listing those that there
        are."""
        if name not in self.configs:
            known = ", ".join(self.configs)
            raise DocumentError(
                self.source, f"has no configuration {name!r}", hint=f"it has {known}"
            )
        return self.configs[name]


def read(path: Path) -> Config:
    """Read a file. Raises DocumentError naming the key at fault."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    return parse(raw, source=path)


def parse(raw: bytes | str, *, source: str | Path) -> Config:
    """Read text. Raises DocumentError naming the key at fault."""
    data = _load(raw, source)
    if not isinstance(data, dict):
        raise DocumentError(source, "holds no mapping")
    _known(data, _TOP, source, "")
    if data.get("version") != "v1":
        raise DocumentError(source, f"is {data.get('version')!r}, not 'v1'", key="version")
    configs = data.get("mig-configs")
    if not isinstance(configs, dict) or not all(isinstance(name, str) for name in configs):
        raise DocumentError(source, "must map names to lists of devices", key="mig-configs")
    parsed = {}
    for name, entries in configs.items():
        key = f"mig-configs.{name}"
        if not isinstance(entries, list):
            raise DocumentError(source, "must be a list", key=key)
        parsed[name] = tuple(_entry(e, source, f"{key}.{n}") for n, e in enumerate(entries))
    return Config(parsed, str(source))


def _load(raw: bytes | str, source: str | Path) -> object:
    yaml = _yaml()
    if len(raw) > MAX_BYTES:
        raise DocumentError(source, f"is larger than {MAX_BYTES} bytes")

    class Strict(yaml.SafeLoader):  # type: ignore[misc, name-defined, unused-ignore]
        """No aliases (they multiply) and no key twice."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not accepted")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if not isinstance(key, str | int):
                    raise yaml.YAMLError("keys must be plain words")
                if keys.count(key) > 1:
                    raise yaml.YAMLError(f"the key {key!r} is given twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(raw, Loader=Strict)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise DocumentError(source, f"is not YAML that can be used: {problem[:200]}") from None


def _yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise ToolMissing(
            "PyYAML", needed_for="mig-parted files", hint="pip install 'berth[mig]'"
        ) from None
    return yaml


def _known(data: Mapping[Any, object], known: Sequence[str], source: str | Path, key: str) -> None:
    for name in data:
        if name not in known:
            raise DocumentError(
                source,
                "is not a field of mig-parted's format",
                key=f"{key}.{name}" if key else str(name),
                hint=f"known: {', '.join(known)}",
            )


def _entry(data: object, source: str | Path, key: str) -> Entry:
    if not isinstance(data, dict):
        raise DocumentError(source, "must be a mapping", key=key)
    _known(data, _ENTRY, source, key)
    enabled = data.get("mig-enabled")
    if not isinstance(enabled, bool):
        raise DocumentError(source, "must be true or false", key=f"{key}.mig-enabled")
    sizes = data.get("mig-devices") or {}
    if not isinstance(sizes, dict) or not all(
        isinstance(n, str) and type(c) is int and c >= 0 for n, c in sizes.items()
    ):
        raise DocumentError(
            source, "must map profile names to whole numbers", key=f"{key}.mig-devices"
        )
    if sizes and not enabled:
        raise DocumentError(source, "must be empty where MIG is off", key=f"{key}.mig-devices")
    return Entry(
        devices=_devices(data.get("devices"), source, f"{key}.devices"),
        mig_enabled=enabled,
        mig_devices=sizes,
        device_filter=_filters(data.get("device-filter"), source, f"{key}.device-filter"),
    )


def _devices(data: object, source: str | Path, key: str) -> tuple[int, ...] | None:
    if data == "all":
        return None
    if isinstance(data, list) and all(type(n) is int and n >= 0 for n in data):
        if len(set(data)) < len(data):
            raise DocumentError(source, "names a device twice", key=key)
        return tuple(data)
    raise DocumentError(source, "must be 'all' or a list of device numbers", key=key)


def _filters(data: object, source: str | Path, key: str) -> tuple[str, ...]:
    if data is None:
        return ()
    filters = data if isinstance(data, list) else [data]
    if not filters or not all(isinstance(f, str) and _FILTER.fullmatch(f) for f in filters):
        raise DocumentError(source, 'must be PCI ids such as "0x20B010DE"', key=key)
    return tuple(filters)


def write(configs: Mapping[str, Iterable[Entry]]) -> str:
    """Write the file's text, entries in the order and spelling that mig-parted's own files have."""
    lines = ["version: v1", "mig-configs:" + ("" if configs else " {}")]
    for name, entries in configs.items():
        listed = tuple(entries)
        lines.append(f"  {_word(name)}:" + ("" if listed else " []"))
        for entry in listed:
            head = []
            if entry.device_filter:
                quoted = ", ".join(f'"{f}"' for f in entry.device_filter)
                head.append(f"device-filter: [{quoted}]")
            head.append(
                "devices: all" if entry.devices is None else f"devices: {list(entry.devices)}"
            )
            head.append(f"mig-enabled: {str(entry.mig_enabled).lower()}")
            if entry.mig_enabled and not entry.mig_devices:
                head.append("mig-devices: {}")
            lines += [f"    {'- ' if n == 0 else '  '}{line}" for n, line in enumerate(head)]
            if entry.mig_devices:
                lines.append("      mig-devices:")
                lines += [f'        "{p}": {n}' for p, n in entry.mig_devices.items()]
    return "\n".join(lines) + "\n"


def _word(name: str) -> str:
    """Return a key that YAML reads back as this text."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._+-]*", name) and name.lower() not in _RESERVED
    return name if plain else json.dumps(name)


def entries(gpus: Sequence[tuple[int, Geometry, Layout, bool]]) -> tuple[Entry, ...]:
    """Make one entry for all devices with one layout, from (index, geometry, layout, MIG on)."""
    indices_by_layout: dict[tuple[bool, tuple[tuple[str, int], ...]], list[int]] = {}
    for index, geometry, layout, enabled in gpus:
        counts = layout.counts()
        rows = tuple((p.name, counts[p.name]) for p in geometry.profiles if p.name in counts)
        indices_by_layout.setdefault((enabled, rows), []).append(index)
    return tuple(
        Entry(tuple(sorted(indices)), enabled, dict(rows))
        for (enabled, rows), indices in indices_by_layout.items()
    )
