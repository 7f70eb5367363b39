"""docs/mig-jobs.md: its tables are taken, its commands run, its promises are the code's."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from berth.pilot.documents import validate
from berth.plugin.cli import main
from berth.plugin.mig.settings import MigSettings
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site
from berth.policies.codes import Code
from berth.policies.settings import SliceAim

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "mig-jobs.md").read_text(encoding="utf-8")


def test_its_tables_are_site_files() -> None:
    slurm, flux = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for text, scheduler, expected in (
        (slurm, "slurm", ("mig", "gpu:1g.5gb", 28)),
        (flux, "flux", ("mig-1g.10gb", "gpu", 7)),
    ):
        data = tomllib.loads(text)
        data = {"schema": "berth.site/1", "site": {"scheduler": scheduler}, **data}
        site = build_site(validate(data, SiteDocument, source="page"), Path("berth.toml"))
        first = site.candidates[0]
        assert (first.queue, first.gres, first.gpus_per_node) == expected


def test_its_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recommend = (DOCS / "mig-recommend.md").read_text(encoding="utf-8")
    block, _gromacs = re.findall(r"```json\n(.*?)```", recommend, re.DOTALL)
    (tmp_path / "resnet.json").write_text(block)
    monkeypatch.chdir(tmp_path)
    (words,) = (x.split()[1:] for x in re.findall(r"^    (berth .*)$", PAGE, re.MULTILINE))
    main([*words, "--store", f"sqlite:///{tmp_path}/berth.db", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert "a100-40gb-mig-1g.5gb" in found["platforms"]


def test_it_names_every_aim_and_only_real_codes() -> None:
    for aim in SliceAim:
        assert f"`{aim.value}`" in PAGE
    tail = PAGE.partition("## When a job does not get a slice")[2]
    codes = {code.value for code in Code}
    named = set(re.findall(r"`([a-z]+-[a-z]+|memory)`", tail))
    assert {"not-cut", "one-slice", "untyped-gpu"} <= named
    assert named <= codes


def test_the_shipped_settings_say_what_the_page_on_cutting_says() -> None:
    shipped = (DOCS.parent / "deploy" / "berth-mig.toml").read_text(encoding="utf-8")
    made = validate(tomllib.loads(shipped), MigSettings, source="berth-mig.toml")
    assert made.outlook == MigSettings(schema="berth.mig/1").outlook
    page = (DOCS / "mig-apply.md").read_text(encoding="utf-8")
    assert made.outlook.memory in page
    assert f"({made.outlook.window_s / 3600:g} hours)" in page
