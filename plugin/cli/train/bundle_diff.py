"""What differs between two bundles: data, figures, widths of intervals, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from berth.predictor.core.bundle import BundleManifest

_WIDTHS = ("width", "quantile", "q90", "q95")
_MADE = ("id", "created", "command", "berth_version", "schema")


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of the manifests. None: the manifest has no such key."""

    group: str
    """``made``, ``files``, ``figures``, ``widths`` or ``data``."""
    key: str
    before: Any
    after: Any

    def sentence(self) -> str:
        """``figures.error: 0.12 -> 0.1``."""
        if self.group == "files":
            state = "changed" if None not in (self.before, self.after) else (
                "only in the second" if self.before is None else "only in the first"
            )  # fmt: skip
            return f"{self.key}: {state}"
        return f"{self.key}: {_short(self.before)} -> {_short(self.after)}"


def differences(before: BundleManifest, after: BundleManifest) -> list[Difference]:
    """In the order of the manifests' keys, by group."""
    first, second = (
        dict(_flat(one.model_dump(mode="json", by_alias=True))) for one in (before, after)
    )
    found = [
        Difference(_group(key), key, first.get(key), second.get(key))
        for key in dict.fromkeys((*first, *second))
        if first.get(key) != second.get(key)
    ]
    order = ("made", "data", "figures", "widths", "files")
    return sorted(found, key=lambda one: order.index(one.group))


def as_json(found: list[Difference]) -> list[dict[str, Any]]:
    """For ``--json``."""
    return [asdict(one) for one in found]


def _flat(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for index, inner in enumerate(value):
            name = _name_of(inner, index)
            yield from _flat(inner, f"{path}[{name}]")
    else:
        yield path, value


def _name_of(value: object, index: int) -> str:
    if isinstance(value, Mapping):
        for key in ("name", "platform", "head"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return str(index)


def _group(key: str) -> str:
    first = key.partition(".")[0]
    if first in ("files", "figures"):
        return first
    if first in _MADE:
        return "made"
    last = key.rpartition(".")[2]
    return "widths" if any(word in last for word in _WIDTHS) else "data"


def _short(value: object) -> str:
    if value is None:
        return "none"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
