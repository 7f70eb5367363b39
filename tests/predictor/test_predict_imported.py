"""From another tool's file to a ranking: what an importer writes is enough to predict from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imported import SAMPLES
from toy_profiles import PLATFORM

from berth.plugin.cli import main


def test_a_cachegrind_file_and_a_time_are_enough_for_a_ranking(
    tmp_path: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "seq.json"
    source = str(SAMPLES / "cachegrind.out")
    wishes = ["--platform", PLATFORM, "--runtime", "0.01", "-o", str(profile)]
    main(["pilot", "import", source, *wishes])
    capsys.readouterr()
    main(["predict", str(profile), "--bundle", str(toy_bundle), "--json"])
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert all(p["runtime_s"]["mid"] > 0 for p in found)
    # The file says nothing of memory: neither does the prediction.
    assert {p[f"{of}_memory_bytes"] for p in found for of in ("host", "gpu")} == {None}
    main(["predict", str(profile), "--bundle", str(toy_bundle)])
    assert "TiB" not in capsys.readouterr().out


def test_a_file_without_caches_says_what_a_prediction_lacks(
    tmp_path: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "triad.json"
    source = str(SAMPLES / "kernels.cali")
    wishes = ["--platform", PLATFORM, "--region", "*TRIAD", "-o", str(profile)]
    main(["pilot", "import", source, *wishes])
    main(["predict", str(profile), "--bundle", str(toy_bundle)])
    assert "it has no loads, no stores, no l1_load_misses" in capsys.readouterr().out
