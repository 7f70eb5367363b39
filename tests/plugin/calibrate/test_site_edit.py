"""The site file changed: only what calibration means to change."""

from __future__ import annotations

import tomllib

import pytest
import tomlkit
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


USUAL = """\
# The site of our department.
schema = "berth.site/1"   # the only one there is

[site]
name = "x"      # short

# Nodes of 2024.
[[platforms]]
# measured in May
name = "a"
price_per_hour = 2.5  # as in the contract

[[platforms]] # older ones
name = 'b'
file = "old/b.json"  # to be replaced

[[candidates]]
name = "fast"

[predictor]
# ours
bundles = [
  "old",  # of last year
]
"""


def test_comments_order_and_spaces_of_the_site_file_stay() -> None:
    changed = with_calibration(USUAL, {"a": "p/a.json", "b": "p/b.json", "c": "p/c.json"}, ["new"])
    lines = changed.splitlines()
    gone = [line for line in USUAL.splitlines() if line not in lines]
    assert gone == ['file = "old/b.json"  # to be replaced', "bundles = [",
                    '  "old",  # of last year', "]"]  # fmt: skip
    assert lines[lines.index('name = "a"') + 1] == 'file = "p/a.json"'
    assert 'file = "p/b.json"  # to be replaced' in lines
    rest = iter(lines)
    stays = [line for line in USUAL.splitlines() if line.strip() and line not in gone]
    assert all(line in rest for line in stays)  # in their order
    assert with_calibration(changed, {"a": "p/a.json"}, ["new"]) == changed


@pytest.mark.parametrize(
    "text",
    [
        'predictor = { bundles = ["old"] }\n',
        'predictor.bundles = ["old"]\n',
        'platforms = [{ name = "a" }]\n',
        '[ "predictor" ]\nbundles=[]',
        '[predictor]\n"bundles" = ["x"]\n',
    ],
)
def test_unusual_ways_to_write_a_table_are_changed_too(text: str) -> None:
    try:
        changed = with_calibration(text, {"a": "p/a.json"}, ["new"])
    except UsageError as refused:  # with the lines to write
        assert 'bundles = ["new"]' in (refused.hint or "")
        return
    found = tomllib.loads(changed)
    assert found["predictor"]["bundles"] == ["new"]
    assert found["platforms"] == [{"name": "a", "file": "p/a.json"}]


def test_what_would_not_mean_what_it_should_is_refused_with_the_lines_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tomlkit, "dumps", lambda _: "[predictor]\n")
    with pytest.raises(UsageError, match="cannot be changed safely") as refused:
        with_calibration('predictor = { bundles = ["old"] }\n', {"a": "p/a.json"}, ["new"])
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
