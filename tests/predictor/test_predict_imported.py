"""From another tool's file to a ranking: what an importer writes is enough to predict from."""

from __future__ import annotations

from pathlib import Path

import pytest
from imported import SAMPLES
from toy_profiles import PLATFORM

from berth.plugin.cli import main


def test_a_file_without_caches_says_what_a_prediction_lacks(
    tmp_path: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "triad.json"
    source = str(SAMPLES / "kernels.cali")
    wishes = ["--platform", PLATFORM, "--region", "*TRIAD", "-o", str(profile)]
    main(["pilot", "import", source, *wishes])
    main(["predict", str(profile), "--bundle", str(toy_bundle)])
    assert "it has no loads, no stores, no l1_load_misses" in capsys.readouterr().out
