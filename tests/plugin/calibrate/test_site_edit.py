"""The site file changed line by line: only what calibration means to change."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import UsageError
from berth.plugin.calibrate.install import with_calibration


def test_tables_that_are_not_there_are_added() -> None:
    changed = with_calibration('schema = "berth.site/1"\n', {"a": "p/a.json"}, ["bundles/x"])
    assert tomllib.loads(changed) == {
        "schema": "berth.site/1",
        "platforms": [{"name": "a", "file": "p/a.json"}],
        "predictor": {"bundles": ["bundles/x"]},
    }


def test_a_list_over_several_lines_is_replaced_whole() -> None:
    text = '[predictor]\n# ours\nbundles = [\n  "old",\n  "older",\n]\n[site]\nname = "x"\n'
    found = tomllib.loads(with_calibration(text, {}, ["new"]))
    assert found == {"predictor": {"bundles": ["new"]}, "site": {"name": "x"}}


def test_what_is_written_unusually_is_left_with_the_lines_to_write() -> None:
    text = 'predictor = { bundles = ["old"] }\n'
    with pytest.raises(UsageError, match="line by line") as refused:
        with_calibration(text, {"a": "p/a.json"}, ["new"])
    assert 'bundles = ["new"]' in (refused.value.hint or "")


NAMES = st.sampled_from(["a", "b", "c-1"])


@given(st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), st.booleans(), st.booleans())
def test_it_means_what_it_should_and_comments_stay(
    there: list[str], wanted: list[str], has_file: bool, has_bundles: bool
) -> None:
    lines = ['schema = "x"']
    for name in there:
        lines += ["[[platforms]] # one", f'name = "{name}"', "# note"]
        lines += [f'file = "old/{name}.json"'] if has_file else []
        lines += ["price_per_hour = 1.0"]
    lines += ["[predictor]", 'bundles = ["old"]'] if has_bundles else []
    files = {name: f"platforms/{name}.json" for name in wanted}
    text = with_calibration("\n".join(lines), files, ["new"])
    found = tomllib.loads(text)
    tables = {t["name"]: t for t in found.get("platforms", [])}
    assert {n: tables[n]["file"] for n in wanted} == files
    assert tables.keys() == {*there, *wanted}
    assert found["predictor"]["bundles"] == ["new"]
    assert text.count("# note") == len(there)
