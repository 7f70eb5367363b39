"""A site's own profiles as rows: what pairs, what is left out, what is refused in a sentence."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from site_profiles import profile, write_site

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.command_line import berth
from berth.predictor.families.relative.rows import identity, row_of
from berth.predictor.families.relative.views import PILOT, fitting
from berth.predictor.learning.relative.measurements import read_measurements


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
    assert fitting(rows) is PILOT


def test_a_time_that_is_not_there_is_missing_and_a_strange_workload_left_out(site) -> None:
    (site / "gpu-app0-1.json").unlink()
    labels = (site / "big.csv").read_text(encoding="utf-8")
    (site / "big.csv").write_text(labels + "stranger,big,2.5\n", encoding="utf-8")
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


def test_a_misspelt_counter_is_named_with_the_nearest(site) -> None:
    def misspell(first) -> None:
        first["counters"]["instructoins"] = first["counters"].pop("instructions")

    edit(site, misspell)
    with pytest.raises(UsageError, match="'instructoins' of 'app0-1' is unknown") as caught:
        read_measurements([site])
    assert "instructions" in (caught.value.hint or "")


@pytest.mark.parametrize("cell", ["nan", "inf", "-1", "0", "fast"])
def test_a_label_that_is_no_time_names_its_line(site, cell) -> None:
    text = (site / "big.csv").read_text(encoding="utf-8")
    (site / "big.csv").write_text(text + f"app9-1,big,{cell}\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=r"line 14.*not a time above 0"):
        read_measurements([site])


@pytest.mark.parametrize("cell", ["1e308", "1e-320", "3e9"])
def test_a_time_that_nothing_takes_is_refused(site, cell) -> None:
    text = (site / "big.csv").read_text(encoding="utf-8")
    (site / "big.csv").write_text(text + f"app9-1,big,{cell}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"line 14: .* s is no time that 'app9-1' takes"):
        read_measurements([site])


@pytest.mark.parametrize(
    "line", [",big,1", "app9-1,,1", "app9-1,\x1b[31mbig,1", "app9-1,b\x00g,1", "app9-1,a b,1"]
)
def test_a_label_of_no_name_is_refused(site, line) -> None:
    text = (site / "big.csv").read_text(encoding="utf-8")
    (site / "big.csv").write_text(text + line + "\n", encoding="utf-8")
    with pytest.raises(DocumentError, match="line 14"):
        read_measurements([site])


def test_a_spreadsheets_byte_order_mark_and_blanks_around_names_are_no_part_of_them(site) -> None:
    plain = read_measurements([site]).rows
    text = (site / "big.csv").read_text(encoding="utf-8").replace(",big,", ", big ,")
    (site / "big.csv").write_text(text, encoding="utf-8-sig")
    found = read_measurements([site]).rows
    assert found.platforms == plain.platforms
    assert np.array_equal(found.log_seconds, plain.log_seconds)


def test_a_misspelt_platform_and_milliseconds_are_doubted(site) -> None:
    assert not read_measurements([site]).doubtful
    head, first, *rest = (site / "big.csv").read_text(encoding="utf-8").splitlines()
    lines = [head, first.replace(",big,", ",Big,")]
    for line in rest:
        name, platform, taken = line.split(",")
        lines.append(f"{name},{platform},{float(taken) * 1000!r}")
    (site / "big.csv").write_text("\n".join(lines), encoding="utf-8")
    few, far = read_measurements([site]).doubtful
    assert few.startswith("Big: 1 of 12 workloads have a time there")
    assert far.startswith("big: ")
    assert "slower than here; is every time in seconds?" in far


@pytest.mark.parametrize(
    ("header", "message"),
    [("name,platform", "not name, platform, runtime_s"), ("", "is empty")],
)
def test_another_table_is_refused(site, header, message) -> None:
    (site / "big.csv").write_text(header + "\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        read_measurements([site])


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
        for path in [site / "big.csv", *site.glob("gpu-*.json")]:
            path.unlink()
    else:
        (site / "here.jsonl").write_text("\n".join(lines[:2]), encoding="utf-8")
    words = ["train", site, "--task", "relative-performance", "--out", tmp_path / "bundle"]
    result = CliRunner().invoke(berth, [str(word) for word in words])
    assert isinstance(result.exception, UsageError), result.exception
    assert message in result.exception.message
    assert not (tmp_path / "bundle").exists()


def test_a_reference_without_profiles_to_choose_from_is_wrong_usage() -> None:
    words = ["train", "--out", "b", "--task", "relative-performance", "--reference", "here"]
    result = CliRunner().invoke(berth, words)
    assert isinstance(result.exception, UsageError)
    assert "no PROFILES" in result.exception.message
