"""Samples of each tool's shape as Profiles, and files written for one test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from imported import SAMPLES, profiles_of

from berth.pilot.importers.reading import ImportOptions
from berth.pilot.profile import Profile


@pytest.fixture
def sample() -> Callable[..., dict[str, Profile]]:
    """``sample("perf.csv")``: its Profiles by region."""

    def read(
        name: str, options: ImportOptions | None = None, **wishes: object
    ) -> dict[str, Profile]:
        return profiles_of(SAMPLES / name, options, **wishes)

    return read


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """``written("x.csv", text)``: a file with that text."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
