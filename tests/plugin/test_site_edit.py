"""A site file changed in its text, by a person's key or by calibration: all else stays.

A broken file is never written.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.calibrate.install import with_calibration
from berth.plugin.site import load_site
from berth.plugin.site.edit import KeyChange, with_settings
from berth.plugin.site.load import DEMO_FILE


def edit(path: Path, table: str, key: str, value: str | float | list[str]) -> None:
    path.write_text(with_settings(path.read_text(), [KeyChange(table, key, value)], path))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "berth.toml"
    path.write_text("# ours\n" + DEMO_FILE.read_text())
    return path


def test_a_key_is_changed_and_nothing_else(site: Path) -> None:
    before = site.read_text().splitlines()
    edit(site, "", "mode", "enforce")
    after = site.read_text().splitlines()
    assert [line for line in after if line not in before] == ['mode = "enforce"']
    assert len(after) == len(before)
    assert load_site(site).mode.value == "enforce"
    edit(site, "daemon", "admins", ["ada", "bob"])
    edit(site, "daemon", "admins", ["bob"])
    assert load_site(site).daemon.admins == ("bob",)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [("", "mode", "fast"), ("", "wrong", "x"), ("policy", "objective", "none-such")],
)
def test_what_would_break_it_is_refused(site: Path, text: str, key: str, value: str) -> None:
    before = site.read_text()
    with pytest.raises(BerthError):
        edit(site, text, key, value)
    assert site.read_text() == before


def test_lists_over_several_lines_and_new_tables_are_written_where_they_belong(site: Path) -> None:
    site.write_text(site.read_text().replace("[energy]", "# of our grid\n[energy]  # since May"))
    edit(site, "policy.weights", "wait", 0.5)
    edit(site, "policy", "time_margin", 1.5)
    edit(site, "daemon", "admins", ["bob"])
    said = site.read_text()
    assert (
        'objective = "fastest"\ntime_margin = 1.5\n\n'
        "[policy.weights]\nwait = 0.5\n"
        "\n# of our grid\n[energy]  # since May\n"
    ) in said
    site.write_text(said.replace('["bob"]', '[\n  "bob",\n]'))
    edit(site, "daemon", "admins", ["bob", "ada"])
    assert load_site(site).daemon.admins == ("bob", "ada")


def test_what_cannot_be_changed_safely_is_left_to_a_person(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.read_text()
    monkeypatch.setattr(tomlkit, "dumps", lambda _: "")
    with pytest.raises(UsageError, match="cannot be changed safely") as refused:
        edit(site, "daemon", "admins", ["bob", "ada"])
    assert 'daemon.admins = ["bob", "ada"]' in (refused.value.hint or "")
    assert site.read_text() == before


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
