"""Where a bundle comes from: what every manifest says of how it was made."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypedDict

from berth.pilot.version import VERSION


class Made(TypedDict):
    """The fields of ``BundleManifest``; ``write_bundle`` fills in ``id`` and ``files``."""

    id: str
    created: str
    command: str
    berth_version: str
    figures: dict[str, float]
    files: dict[str, str]


def made_by(command: str, figures: Mapping[str, float] | None = None) -> Made:
    """Made now, by ``command``, with this version; ``figures``: of its evaluation."""
    return Made(
        id="",
        created=now(),
        command=command,
        berth_version=VERSION,
        figures=dict(figures or {}),
        files={},
    )


def now() -> str:
    """UTC to the second, as in every manifest."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Of each installed library that training used."""
    return {name: importlib.metadata.version(name) for name in libraries}
