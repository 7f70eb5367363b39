"""A site's own profiles as rows: what pairs, what is left out, what is refused in a sentence."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from linear_family import bundle_of
from site_profiles import profile, write_site

from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.predictor.families.relative.rows import identity, row_of
from lab.relative.measurements import read_measurements


@pytest.fixture
def site(tmp_path):
    return write_site(tmp_path / "site")


def made(**words) -> Profile:
    return Profile.model_validate_json(json.dumps({**profile("app-1", 1e6, 1e5), **words}))


def edit(folder, change) -> None:
    """Applies ``change`` to the first profile with counters."""
    lines = (folder / "here.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    change(first)
    text = "\n".join([json.dumps(first), *lines[1:]])
    (folder / "here.jsonl").write_text(text, encoding="utf-8")


def test_counters_are_the_references_and_times_everybodys(site) -> None:
    found = read_measurements([site])
    rows = found.rows
    assert (rows.reference, rows.platforms) == ("here", ("here", "big", "gpu"))
    assert rows.counters == ("instructions", "l1_load_misses", "llc_load_misses")
    assert len(rows) == 12
    assert np.isfinite(rows.log_seconds).all()
    assert set(rows.applications) == {f"app{n}" for n in range(6)}


def test_a_time_that_is_not_there_is_missing_and_a_strange_workload_left_out(site) -> None:
    (site / "gpu-app0-1.json").unlink()
    stranger = {**profile("app0-1", 1e6, 1e5, "big"), "name": "stranger"}
    stranger["workload"] = {"command": ["./stranger"], "size": 1.0}
    (site / "stranger.json").write_text(json.dumps(stranger), encoding="utf-8")
    found = read_measurements([site])
    assert np.isnan(found.rows.log_seconds).sum() == 1
    assert found.unpaired == ("stranger",)


def test_a_constant_counter_is_left_out_and_named(site) -> None:
    text = (site / "here.jsonl").read_text(encoding="utf-8")
    more = '"counters": {"threads": {"value": 1.0, "quality": "measured", "source": "proc"}, '
    (site / "here.jsonl").write_text(text.replace('"counters": {', more), encoding="utf-8")
    found = read_measurements([site])
    assert found.constant == ("threads",)
    assert found.values == {"threads": 1.0}
    assert "threads" not in found.rows.counters


@pytest.mark.parametrize(
    ("name", "size", "told"),
    [
        ("lulesh-30", 30.0, ("lulesh", "lulesh", "30")),
        ("srad.reduce-64", None, ("srad", "reduce", "64")),
        ("my-app", None, ("my-app", "my-app", "")),
    ],
)
def test_a_name_says_what_it_is_of(name, size, told) -> None:
    found = identity(made(name=name, workload={"command": ["./a"], "size": size}))
    assert (found.application, found.kernel, found.size) == told


def test_the_same_command_and_size_pairs_where_names_differ(site) -> None:
    path = site / "gpu-app0-1.json"
    there = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**there, "name": "slurm-1234"}), encoding="utf-8")
    found = read_measurements([site])
    assert not found.unpaired
    assert np.isfinite(found.rows.log_seconds).all()


def test_a_run_that_failed_is_refused(site) -> None:
    edit(site, lambda first: first.update(exit_status=1))
    with pytest.raises(UsageError, match="did not complete"):
        read_measurements([site])


def test_a_workload_twice_on_a_platform_is_refused(site) -> None:
    twice = (site / "gpu-app0-1.json").read_text(encoding="utf-8")
    (site / "again.json").write_text(twice, encoding="utf-8")
    with pytest.raises(UsageError, match="'app0-1' was already timed on 'gpu'"):
        read_measurements([site])


def test_all_counters_constant_is_refused(site) -> None:
    lines = (site / "here.jsonl").read_text(encoding="utf-8").splitlines()
    same = [{**json.loads(line), "counters": json.loads(lines[0])["counters"]} for line in lines]
    (site / "here.jsonl").write_text("\n".join(map(json.dumps, same)), encoding="utf-8")
    with pytest.raises(UsageError, match="one value in all profiles"):
        read_measurements([site])


def test_an_empty_folder_and_a_reference_nobody_piloted_on_are_refused(site, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no profile in"):
        read_measurements([tmp_path / "empty"])
    with pytest.raises(UsageError, match="measured on the reference 'gpu'"):
        read_measurements([site], "gpu")


def test_two_possible_references_have_to_be_told_apart(tmp_path) -> None:
    for platform in ("here", "there"):
        data = {**profile("app-1", 1e6, 1e5), "platform": platform}
        (tmp_path / f"{platform}.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UsageError, match="here and there have as many"):
        read_measurements([tmp_path])


def test_a_missing_counter_of_one_profile_is_a_hole() -> None:
    found = row_of(made(), ("instructions", "fp_ops"), ("here", "gpu"), {"gpu": 2.0})
    assert found.values[0, 0] == 1e6
    assert math.isnan(found.values[0, 1])
    assert found.log_seconds[0, 1] == pytest.approx(math.log(2))
    with pytest.raises(UsageError, match="none of the counters"):
        row_of(made(), ("fp_ops",), ("here", "gpu"), {})
    with pytest.raises(UsageError, match="measured on 'here', unknown to the bundle"):
        row_of(made(), ("instructions",), ("cpu", "gpu"), {})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("one platform", "here is the only platform"),
        ("one application", "1 applications are fewer than the 2"),
    ],
)
def test_too_little_is_refused_before_anything_is_fitted(site, tmp_path, spoil, message):
    lines = (site / "here.jsonl").read_text(encoding="utf-8").splitlines()
    if spoil == "one platform":
        for path in [site / "big.jsonl", *site.glob("gpu-*.json")]:
            path.unlink()
    else:
        (site / "here.jsonl").write_text("\n".join(lines[:2]), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        bundle_of(site, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
