"""``berth place NAME`` finds a user's own workload by the name that the user gave it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy_profiles
from click.testing import CliRunner

from berth.pilot.documents import to_json
from berth.plugin.cli import berth
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
