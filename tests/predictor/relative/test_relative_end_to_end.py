"""A site's data to a bundle to a prediction on the command line."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from linear_family import bundle_of
from site_profiles import SECONDS, profile, write_site

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.command_line import berth
from berth.predictor.families.program.range_check import RANGE
from berth.predictor.families.relative import bundle as bundles
from lab.relative.measurements import read_measurements

WORK, FAR = 2e8, 3e8


def run(*words):
    return CliRunner().invoke(berth, [str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a site's data, its bundle, and one new program's profiles."""
    folder = tmp_path_factory.mktemp("end-to-end")
    write_site(folder / "site", applications=8)
    bundle_of(folder / "site", folder / "bundle")
    for name in ("here", "gpu"):
        data = profile("new-3", WORK, FAR, name)
        (folder / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    odd = profile("odd-3", 1e3, 1e12)
    (folder / "odd.json").write_text(json.dumps(odd), encoding="utf-8")
    return folder


def predicted(place, *words) -> dict:
    result = run("predict", place / "here.json", "--bundle", place / "bundle", "--json", *words)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def by_platform(document) -> dict:
    return {p["platform"]: p for p in document["predictions"]}


def test_times_have_intervals_that_hold_the_truth(place) -> None:
    found = by_platform(predicted(place))
    assert set(found) == {"here", "big", "gpu"}
    for name in ("big", "gpu"):
        runtime = found[name]["runtime_s"]
        assert runtime["low"] < runtime["mid"] < runtime["high"]
        assert runtime["low"] < SECONDS[name](WORK, FAR) < runtime["high"]
        assert found[name]["basis"] == "calibrated"
    assert found["here"]["basis"] == "measured"
    assert found["here"]["speedup"]["mid"] == pytest.approx(1)


def test_what_the_command_says_is_what_the_trainer_says(place) -> None:
    model = bundles.load(place / "bundle")
    rows = read_measurements([place / "site"]).rows
    assert model.manifest.platforms == rows.platforms
    widths = model.manifest.log_widths
    assert widths is not None
    assert widths.keys() == set(rows.platforms)
    assert widths["here"] == 0
    assert model.manifest.unmeasured is None
    assert RANGE in model.manifest.files


def test_a_run_elsewhere_is_given_back(place) -> None:
    found = by_platform(predicted(place, str(place / "gpu.json")))
    assert found["gpu"]["basis"] == "measured"
    assert found["gpu"]["runtime_s"]["mid"] == pytest.approx(SECONDS["gpu"](WORK, FAR))


def test_a_program_unlike_all_others_is_abstained_from(place) -> None:
    result = run("predict", place / "odd.json", "--bundle", place / "bundle")
    assert result.exit_code == 0
    assert "abstains: " in result.output
    assert "log(1 + " in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "8"), "--size means nothing for"),
        (("--cores", "8"), "--cores means nothing for"),
        (("--platform", "moon"), "does not know the platform 'moon'"),
    ],
)
def test_wrong_usage_is_one_sentence(place, words, message) -> None:
    result = run("predict", place / "here.json", "--bundle", place / "bundle", *words)
    assert isinstance(result.exception, UsageError)
    assert message in result.exception.message


def test_a_program_piloted_elsewhere_than_the_bundle_learnt_from_is_refused(place) -> None:
    result = run("predict", place / "gpu.json", "--bundle", place / "bundle")
    assert isinstance(result.exception, UsageError)
    assert "none of the counters" in result.exception.message
    data = {**profile("new-3", WORK, FAR), "platform": "big"}
    (place / "big.json").write_text(json.dumps(data), encoding="utf-8")
    result = run("predict", place / "big.json", "--bundle", place / "bundle")
    assert isinstance(result.exception, UsageError)
    assert "not these platforms" in result.exception.message


def test_a_tampered_range_is_refused(place, tmp_path) -> None:
    shutil.copytree(place / "bundle", tmp_path / "bundle")
    path = tmp_path / "bundle" / RANGE
    path.write_text(path.read_text(encoding="utf-8").replace("1", "2", 1), encoding="utf-8")
    result = run("predict", place / "here.json", "--bundle", tmp_path / "bundle")
    assert isinstance(result.exception, DocumentError)
    assert "checksum differs" in result.exception.message


def test_too_few_applications_give_times_without_intervals(place, tmp_path) -> None:
    site = write_site(tmp_path / "site", applications=3)
    assert "3 applications are too few" in bundle_of(site, tmp_path / "small")
    shown = run("predict", place / "here.json", "--bundle", tmp_path / "small")
    assert "not known" in shown.output
    assert "abstains: the bundle learnt from too few applications" in shown.output
    asked = run("predict", place / "here.json", "--bundle", tmp_path / "small", "--json")
    told = by_platform(json.loads(asked.stdout))
    assert told["gpu"]["runtime_s"]["low"] is told["gpu"]["speedup"]["high"] is None
    assert told["gpu"]["runtime_s"]["mid"] > 0
    assert told["here"]["runtime_s"]["low"] == told["here"]["runtime_s"]["high"]
