"""Counters that were constant in training: a program with another value is unlike all of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from linear_family import bundle_of
from site_profiles import profile, write_site

from berth.plugin.cli.command_line import berth
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.bundle import unlike_constants
from lab.relative.measurements import constant_counters

NAN = float("nan")
THREADS = {"value": 1.0, "quality": "measured", "source": "proc"}


def run(*words: object) -> Result:
    return CliRunner().invoke(berth, [str(word) for word in words])


def write_program(path: Path, threads: float | None) -> Path:
    data = profile("new-3", 2e8, 3e8)
    if threads is not None:
        data["counters"]["threads"] = {**THREADS, "value": threads}
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def one_thread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle of a site whose programs all ran one thread."""
    folder = tmp_path_factory.mktemp("one-thread")
    site = write_site(folder / "site", applications=8)
    text = (site / "here.jsonl").read_text(encoding="utf-8")
    more = f'"counters": {{"threads": {json.dumps(THREADS)}, '
    (site / "here.jsonl").write_text(text.replace('"counters": {', more), encoding="utf-8")
    bundle_of(site, folder / "bundle")
    return folder


def test_what_was_constant_is_kept_with_the_bundle_and_not_looked_at(one_thread: Path) -> None:
    manifest = bundles.verify(one_thread / "bundle")
    assert manifest.constants == {"threads": 1.0}
    assert "threads" not in manifest.counters


def test_many_threads_are_abstained_from_where_all_training_programs_had_one(
    one_thread: Path,
) -> None:
    many = write_program(one_thread / "many.json", 32)
    shown = run("predict", many, "--bundle", one_thread / "bundle", "--json")
    found = {p["platform"]: p["abstained"] for p in json.loads(shown.stdout)["predictions"]}
    why = "threads is 32, and 1 in all programs that the bundle was trained on"
    assert found == {"here": None, "big": why, "gpu": why}


@pytest.mark.parametrize(("threads", "missing"), [(1, []), (None, ["threads"])])
def test_one_thread_is_answered_and_an_uncounted_one_said(
    one_thread: Path, threads: float | None, missing: list[str]
) -> None:
    path = write_program(one_thread / f"like-{threads}.json", threads)
    shown = run("predict", path, "--bundle", one_thread / "bundle", "--json")
    found = json.loads(shown.stdout)
    assert {p["abstained"] for p in found["predictions"]} == {None}
    assert found["missing_counters"] == missing


def test_a_bundle_without_constants_keeps_its_id(one_thread: Path) -> None:
    manifest = bundles.verify(one_thread / "bundle")
    without = manifest.model_copy(update={"constants": None})
    older = json.loads(without.model_dump_json(by_alias=True, exclude_none=True))
    assert "constants" not in older
    assert bundles.RelativeManifest.model_validate(older).digest() == without.digest()
    assert without.digest() != manifest.digest()


def test_a_counter_that_few_programs_have_is_no_constant_of_all() -> None:
    values = np.array([[1.0, 7.0, NAN, 3.0], [1.0, NAN, NAN, 4.0], [NAN, NAN, NAN, 3.0]])
    found = constant_counters(("threads", "seldom", "never", "varies"), values)
    assert found == {"threads": 1.0}


@pytest.mark.parametrize(
    ("name", "usual", "value", "same"),
    [
        ("threads", 8.0, 10.0, True),
        ("threads", 1.0, 2.0, False),
        ("threads", 32.0, 1.0, False),
        ("atomic_ops", 0.0, 1.0, True),
        ("atomic_ops", 0.0, 1e6, False),
        ("branch_ratio", 0.0, 0.1, True),
        ("branch_ratio", 0.0, 0.5, False),
        ("of-no-catalogue", 5.0, 50.0, False),
    ],
)
def test_more_than_a_small_factor_is_unlike(
    name: str, usual: float, value: float, same: bool
) -> None:
    assert (unlike_constants({name: usual}, {name: value}) is None) is same
    assert unlike_constants({name: usual}, {}) is None
