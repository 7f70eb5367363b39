"""Public data is found by its folder, checked by its sum, and never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError, ToolMissing
from lab import datasets
from lab.datasets.rajaperf import RAJAPERF, SIZES, rows

present = pytest.mark.skipif(
    not (datasets.folder() / RAJAPERF.path).is_file(),
    reason=f"needs {RAJAPERF.path}: set {datasets.FOLDER_VARIABLE}",
)


def test_an_absent_data_set_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(ToolMissing) as raised:
        datasets.locate(RAJAPERF)
    assert datasets.FOLDER_VARIABLE in (raised.value.hint or "")
    assert "thicket" in (raised.value.hint or "")


def test_another_file_of_that_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    path = tmp_path / RAJAPERF.path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    with pytest.raises(DocumentError, match="checksum"):
        datasets.locate(RAJAPERF)


@present
def test_sixty_kernels_at_three_sizes_on_both_machines() -> None:
    found = rows()
    assert len(found) == 180
    assert len({row.kernel for row in found}) == 60
    assert {row.size for row in found} == set(SIZES)
    assert all(second > 0 for row in found for second in row.seconds.values())


@present
def test_the_chosen_quartz_rows_are_the_optimised_ones() -> None:
    triad = next(r for r in rows() if r.kernel == "Stream_TRIAD" and r.size == 8388608)
    assert triad.bytes_per_rep / triad.seconds["quartz"] == pytest.approx(10.4e9, rel=0.02)
    assert triad.bytes_per_rep / triad.seconds["lassen-v100"] == pytest.approx(833e9, rel=0.02)
