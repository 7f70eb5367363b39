"""Reads and writes the YAML files of NVIDIA's mig-parted.

``version: v1``, ``mig-configs`` with named lists of ``devices``, ``device-filter``, ``mig-enabled``
and ``mig-devices``. Fields that the format does not define are rejected by name, as mig-parted
does. Source of the format: NVIDIA/mig-parted, api/spec/v1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from berth.pilot.documents import Document, validate
from berth.pilot.errors import DocumentError, ToolMissing
from berth.policies.mig import Geometry, Layout

MAX_BYTES = 1024 * 1024
_RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


def _devices(value: Any) -> Any:
    if value == "all":
        return None
    if not isinstance(value, list):
        raise ValueError("must be 'all' or a list of device numbers")
    if len(set(map(str, value))) < len(value):
        raise ValueError("names a device twice")
    return tuple(value)


def _filters(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


PciId = Annotated[str, Field(pattern=r"^0x[0-9A-Fa-f]{8}$")]
Count = Annotated[int, Field(ge=0)]


class MigConfigSpec(Document):
    """The MIG mode and slices that a mig-parted configuration gives to some devices of a node."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"), validate_by_name=True
    )
    devices: Annotated[tuple[Count, ...] | None, BeforeValidator(_devices)]
    """Device numbers; None: all devices."""
    mig_enabled: bool
    mig_devices: dict[str, Count] = Field(default_factory=dict)
    device_filter: Annotated[tuple[PciId, ...], BeforeValidator(_filters)] = ()

    @model_validator(mode="after")
    def _cut_only_where_enabled(self) -> MigConfigSpec:
        if self.mig_devices and not self.mig_enabled:
            raise ValueError("mig-devices must be empty where MIG is off")
        return self

    def covers(self, index: int, pci_ids: Iterable[str]) -> bool:
        """Return whether the entry applies to device ``index``, a GPU with one of these PCI ids."""
        filters = {text.lower() for text in self.device_filter}
        if filters and filters.isdisjoint(text.lower() for text in pci_ids):
            return False
        return self.devices is None or index in self.devices


class Config(Document):
    """A whole mig-parted file: lists of entries by configuration name."""

    version: Literal["v1"]
    configs: dict[str, tuple[MigConfigSpec, ...]] = Field(alias="mig-configs")


def named(config: Config, name: str, source: str | Path) -> tuple[MigConfigSpec, ...]:
    """Return the entries of one configuration. Raises DocumentError, which lists the known
    names."""
    if name not in config.configs:
        known = ", ".join(config.configs)
        raise DocumentError(source, f"has no configuration {name!r}", hint=f"it has {known}")
    return config.configs[name]


def read(path: Path) -> Config:
    """Read a mig-parted file. Raises DocumentError naming the invalid key."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    return parse(raw, source=path)


def parse(raw: bytes | str, *, source: str | Path) -> Config:
    """Parse the text of a mig-parted file. Raises DocumentError naming the invalid key."""
    return validate(_load(raw, source), Config, source=source)


def _load(raw: bytes | str, source: str | Path) -> object:
    yaml = _yaml()
    if len(raw) > MAX_BYTES:
        raise DocumentError(source, f"is larger than {MAX_BYTES} bytes")

    class Strict(yaml.SafeLoader):  # type: ignore[misc, name-defined, unused-ignore]
        """A YAML loader that rejects aliases, which can expand without limit, and duplicate
        keys."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not accepted")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if not isinstance(key, str):
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


def write(configs: Mapping[str, Iterable[MigConfigSpec]]) -> str:
    """Return the text of a mig-parted file, with the order and spelling of mig-parted's own
    files."""
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
    """Return ``name`` as a YAML key, quoted where YAML would read it as something else."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._+-]*", name) and name.lower() not in _RESERVED
    return name if plain else json.dumps(name)


def entries(gpus: Sequence[tuple[int, Geometry, Layout, bool]]) -> tuple[MigConfigSpec, ...]:
    """Return one entry per distinct layout; ``gpus``: (index, geometry, layout, whether MIG is
    on)."""
    indices_by_layout: dict[tuple[bool, tuple[tuple[str, int], ...]], list[int]] = {}
    for index, geometry, layout, enabled in gpus:
        counts = layout.counts()
        rows = tuple((p.name, counts[p.name]) for p in geometry.profiles if p.name in counts)
        indices_by_layout.setdefault((enabled, rows), []).append(index)
    return tuple(
        MigConfigSpec(devices=sorted(indices), mig_enabled=enabled, mig_devices=dict(rows))
        for (enabled, rows), indices in indices_by_layout.items()
    )
