"""``berth place NAME`` finds a user's own workload by the name that the user gave it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy_profiles
from click.testing import CliRunner

from berth.pilot.documents import to_json
from berth.plugin import site_file
from berth.plugin.cli.command_line import berth
from berth.plugin.store import Store
from berth.plugin.store.records import WorkloadRecord

SITE = """
schema = "berth.site/1"
[daemon]
store = "{store}"
socket = "{folder}/none.sock"
[policy]
allow_prior = true
[[candidates]]
name = "cpu"
platform = "quartz"
partition = "cpu"
cores_per_node = 36
"""


@pytest.mark.parametrize("asked", ["melt", "alice/melt"])
def test_the_own_workload_goes_before_the_shared_one(tmp_path: Path, asked: str) -> None:
    url = f"sqlite:///{tmp_path}/berth.db"
    store = Store.open(url)
    text = to_json(toy_profiles.profile("triad"))
    store.add(WorkloadRecord("alice/melt", "program", "sha256:1", text, "alice", 0.0))
    site = tmp_path / "berth.toml"
    site.write_text(SITE.format(store=url, folder=tmp_path))
    words = ["place", asked, "--site", str(site), "--no-state", "--json"]
    done = CliRunner().invoke(berth, [*words, "--user", "alice", "--", "./x"])
    assert done.exit_code == 0, done.output
    assert [row["candidate"] for row in json.loads(done.stdout)["ranked"]] == ["cpu"]
    other = CliRunner().invoke(berth, [*words, "--user", "bob", "--", "./x"])
    assert other.exit_code != 0
    assert asked in str(other.exception)
    if asked == "melt":
        assert "alice/melt is the workload of alice" in str(other.exception)


def _site_with_melt(folder: Path) -> Path:
    url = f"sqlite:///{folder}/berth.db"
    text = to_json(toy_profiles.profile("triad"))
    Store.open(url).add(WorkloadRecord("melt", "program", "sha256:1", text, "alice", 0.0))
    site = folder / "berth.toml"
    site.write_text(SITE.format(store=url, folder=folder))
    return site


def _candidates(*words: str) -> list[str]:
    done = CliRunner().invoke(berth, ["place", *words, "--no-state", "--json", "--", "./melt"])
    assert done.exit_code == 0, done.output
    return [row["candidate"] for row in json.loads(done.stdout)["ranked"]]


def test_the_program_beside_the_caller_is_not_taken_for_its_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`berth pilot run --store --name melt -- ./melt`, then `berth place melt`, in one folder."""
    site = str(_site_with_melt(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("melt").write_bytes(b"\x7fELF\x80")
    assert _candidates("melt", "--site", site) == ["cpu"]
    asked = CliRunner().invoke(berth, ["place", "./melt", "--site", site, "--", "./melt"])
    assert "melt: is a program or a script" in str(asked.exception), "who writes ./ means the file"
    Path("table").write_text(to_json(toy_profiles.profile("triad")))
    assert _candidates("table", "--site", site) == ["cpu"], "a file whose name is no workload's"


def test_an_installed_site_is_used_and_the_demo_only_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `berth pilot run --store`: both must mean one store."""
    monkeypatch.delenv("BERTH_SITE", raising=False)
    monkeypatch.setattr(site_file, "SITE_FILE", _site_with_melt(tmp_path))
    assert _candidates("melt") == ["cpu"]
    file = tmp_path / "melt.json"
    file.write_text(to_json(toy_profiles.profile("triad")))
    assert len(_candidates(str(file), "--demo")) >= 5
