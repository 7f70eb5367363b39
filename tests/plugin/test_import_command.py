"""``berth pilot import``: files in, Profiles out that the other commands read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from imported import SAMPLES

from berth.pilot.documents import parse_json, read_json
from berth.pilot.profile import Profile
from berth.plugin.cli import main
from berth.plugin.cli.command_line import berth

CALI = str(SAMPLES / "kernels.cali")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(berth, ["pilot", "import", *arguments], catch_exceptions=False)


def test_one_region_becomes_one_profile_that_reads_back(tmp_path: Path) -> None:
    out = tmp_path / "triad.json"
    result = run(CALI, "--platform", "quartz", "--region", "*_TRIAD", "-o", str(out))
    assert result.exit_code == 0, result.output
    made = read_json(out, Profile)
    assert made.name == "kernels.Stream_TRIAD"
    assert made.platform == "quartz"
    assert "left out: BlockSize" in result.stderr


def test_several_regions_become_lines_or_files(tmp_path: Path) -> None:
    lines = tmp_path / "all.jsonl"
    assert run(CALI, "--platform", "quartz", "-o", str(lines)).exit_code == 0
    texts = lines.read_text().splitlines()
    assert len([parse_json(text, Profile, source="line") for text in texts]) == 4
    folder = tmp_path / "out"
    folder.mkdir()
    run(CALI, "--platform", "quartz", "-o", str(folder))
    assert len(list(folder.glob("kernels.*.json"))) == 4


def test_json_is_a_line_a_profile_and_sizes_go_with_their_files() -> None:
    files = [str(SAMPLES / "perf.csv"), str(SAMPLES / "perf_repeated.csv")]
    result = run(*files, "--platform", "x", "--size", "2", "--size", "3", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["workload"]["size"] for one in found] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([CALI], "the platform"),
        ([CALI, "--platform", "x", "--size", "1", "--size", "2"], "2 sizes for 1 files"),
        ([CALI, "--platform", "x", "--runtime", "-1"], "above zero"),
        (["/nowhere.cali", "--platform", "x"], "does not exist"),
        ([CALI, "--platform", "x", "--format", "likwid"], "write it with: likwid-perfctr"),
        ([CALI, "--platform", "a b"], "a b"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BERTH_PLATFORM", raising=False)
    with pytest.raises(SystemExit) as caught:
        main(["pilot", "import", *arguments])
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
