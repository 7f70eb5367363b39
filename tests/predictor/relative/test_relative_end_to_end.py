"""A site's data to a bundle to a prediction, through the command line alone."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from site_profiles import SECONDS, profile, write_site
from sklearn.linear_model import Ridge

from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.command_line import berth
from berth.predictor.families.program.bundle import RANGE
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.predictor import predict_row
from berth.predictor.families.relative.rows import row_of
from berth.predictor.learning.relative.measurements import read_measurements
from lab.__main__ import lab
from lab.relative.data import aiwc_rows
from lab.relative.families import Regression

WORK, FAR = 2e8, 3e8
RIDGE = Regression("ridge", "ridge", lambda _seed: Ridge(10.0))


def run(*words):
    return CliRunner().invoke(berth, [str(word) for word in words])


def run_lab(*words):
    return CliRunner().invoke(lab, [str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a site's data, its bundle, and one new program's profiles."""
    folder = tmp_path_factory.mktemp("end-to-end")
    write_site(folder / "site", applications=8)
    result = run(
        "train", "--task", "relative-performance", folder / "site", "--out", folder / "bundle"
    )
    assert result.exit_code == 0, (result.output, result.exception)
    for name in ("here", "gpu"):
        data = profile("new-3", WORK, FAR, name)
        (folder / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    odd = profile("odd-3", 1e3, 1e12)
    (folder / "odd.json").write_text(json.dumps(odd), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"instructions": 1e15}, "log(1 + instructions) is 34.5, far outside the"),
        ({"llc_load_misses": None}, "log(1 + llc_load_misses) is not known"),
    ],
)
def test_one_counter_far_out_or_absent_is_not_outvoted_where_the_time_stands_on_it(
    place, tmp_path, changed, reason
) -> None:
    data = json.loads((place / "here.json").read_text(encoding="utf-8"))
    for name, value in changed.items():
        if value is None:
            del data["counters"][name]
        else:
            data["counters"][name]["value"] = value
    profiled, model = Profile.model_validate_json(json.dumps(data)), bundles.load(place / "bundle")
    wide = replace(model.range_check, threshold=1e9)
    row = row_of(profiled, model.manifest.counters, model.manifest.platforms, {})
    doubts = {p.abstained for p in predict_row(replace(model, range_check=wide), row)}
    (doubt,) = doubts - {None}
    assert doubt.startswith(reason)


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
        (("--picture", "why.svg"), "--picture means nothing for"),
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
    assert "piloted on big, the model learnt from here" in result.exception.message


def test_a_tampered_range_is_refused(place, tmp_path) -> None:
    shutil.copytree(place / "bundle", tmp_path / "bundle")
    path = tmp_path / "bundle" / RANGE
    path.write_text(path.read_text(encoding="utf-8").replace("1", "2", 1), encoding="utf-8")
    result = run("predict", place / "here.json", "--bundle", tmp_path / "bundle")
    assert isinstance(result.exception, DocumentError)
    assert "checksum differs" in result.exception.message


def test_too_few_applications_give_times_without_intervals(place, tmp_path) -> None:
    site = write_site(tmp_path / "site", applications=3)
    result = run("train", "--task", "relative-performance", site, "--out", tmp_path / "small")
    assert result.exit_code == 0, result.exception
    assert "3 applications are too few" in result.output
    shown = run("predict", place / "here.json", "--bundle", tmp_path / "small")
    assert "not known" in shown.output
    assert "abstains: the bundle learnt from too few applications" in shown.output
    asked = run("predict", place / "here.json", "--bundle", tmp_path / "small", "--json")
    told = by_platform(json.loads(asked.stdout))
    assert told["gpu"]["runtime_s"]["low"] is told["gpu"]["speedup"]["high"] is None
    assert told["gpu"]["runtime_s"]["mid"] > 0
    assert told["here"]["runtime_s"]["low"] == told["here"]["runtime_s"]["high"]


def test_baselines_bear_missing_times_and_counters(tmp_path) -> None:
    rows = read_measurements([write_site(tmp_path / "site")]).rows
    whole = RIDGE.fit(rows, 0).log_seconds(rows.knowing())
    rows.log_seconds[0, 1] = rows.values[3, 1] = np.nan
    found = RIDGE.fit(rows, 0).log_seconds(rows.knowing())
    assert np.isfinite(found).all()
    assert found == pytest.approx(whole, abs=1.0)
    assert found[:, 2] != pytest.approx(whole[:, 2])
    rows.log_seconds[:, 1] = np.nan
    assert RIDGE.fit(rows, 0).log_seconds(rows.knowing())[:, 1] == pytest.approx(rows.log_reference)


@pytest.mark.slow
def test_the_public_datas_bundle_serves_a_profile_with_its_counters(tmp_path) -> None:
    try:
        rows = aiwc_rows()
    except BerthError as error:
        pytest.skip(error.message)
    result = run_lab("relative", "--train", tmp_path / "bundle")
    assert result.exit_code == 0, result.exception
    index = len(rows) // 2
    data = profile("unknown-1", 1e6, 1e5)
    seconds = math.exp(rows.log_reference[index])
    data["platform"] = rows.reference
    data["runtime"] = {"median_s": seconds, "spread_s": 0.0, "repeats_s": [seconds]}
    data["counters"] = {
        name: {"value": float(value), "quality": "emulated", "source": "oclgrind"}
        for name, value in zip(rows.counters, rows.values[index], strict=True)
    }
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    told = run("predict", path, "--bundle", tmp_path / "bundle", "--json")
    assert told.exit_code == 0, told.exception
    found = json.loads(told.stdout)
    model = bundles.load(tmp_path / "bundle")
    row = row_of(Profile.model_validate_json(path.read_text()), rows.counters, rows.platforms, {})
    ours = dict(zip(rows.platforms, np.exp(model.log_seconds(row)[0]), strict=True))
    for each in found["predictions"]:
        assert each["runtime_s"]["mid"] == pytest.approx(ours[each["platform"]], rel=1e-6)
        wide = each["runtime_s"]["high"] > 1.05 * each["runtime_s"]["low"]
        assert wide == (each["platform"] != rows.reference)
