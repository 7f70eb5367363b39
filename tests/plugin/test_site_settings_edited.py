"""One key of a site file changed: all else stays, and a broken file is never written."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.site import load_site
from berth.plugin.site.edit import edit
from berth.plugin.site.load import DEMO_FILE


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "berth.toml"
    path.write_text("# ours\n" + DEMO_FILE.read_text())
    path.chmod(0o640)
    return path


def test_a_key_is_changed_and_nothing_else(site: Path) -> None:
    before = site.read_text().splitlines()
    edit(site, "", "mode", "enforce")
    after = site.read_text().splitlines()
    assert [line for line in after if line not in before] == ['mode = "enforce"']
    assert len(after) == len(before)
    assert load_site(site).mode.value == "enforce"
    assert site.stat().st_mode & 0o777 == 0o640
    edit(site, "policy.explore", "excluded_users", ["alice", "bob"])
    edit(site, "policy.explore", "excluded_users", ["alice"])
    assert load_site(site).policy.explore.excluded_users == ("alice",)


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
    edit(site, "policy.explore", "excluded_users", ["carol"])
    edit(site, "policy", "alike_within", 1.25)
    said = site.read_text()
    assert (
        'objective = "fastest"\nalike_within = 1.25\n\n'
        '[policy.explore]\nexcluded_users = ["carol"]\n'
        "\n# of our grid\n[energy]  # since May\n"
    ) in said
    site.write_text(said.replace('["carol"]', '[\n  "carol",\n]'))
    edit(site, "policy.explore", "excluded_users", ["carol", "dave"])
    assert load_site(site).policy.explore.excluded_users == ("carol", "dave")


def test_what_cannot_be_changed_safely_is_left_to_a_person(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.read_text()
    monkeypatch.setattr(tomlkit, "dumps", lambda _: "")
    with pytest.raises(UsageError, match="cannot be changed safely") as refused:
        edit(site, "policy.explore", "excluded_users", ["carol", "dave"])
    assert 'policy.explore.excluded_users = ["carol", "dave"]' in (refused.value.hint or "")
    assert site.read_text() == before
