"""What of Flux's configuration keeps Berth from serving its jobs: each fault made, and named."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import Harbour, harbour
from fake_flux import recorded_flux, state

from berth.plugin.findings import Finding, Status
from berth.plugin.flux.filter import FILTER_PATH, check, filter_config
from berth.plugin.site.load import load_site

Check = Callable[..., Finding]


@pytest.fixture
def site() -> Iterator[Harbour]:
    with harbour() as made:
        yield made


@pytest.fixture
def look(site: Harbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """The finding where Flux's configuration has these plugins, and settings changed so."""
    flux = recorded_flux(tmp_path / "flux", monkeypatch)
    found = load_site(site.site_file)

    def made(*plugins: str, **settings: Any) -> Finding:
        config = tomllib.loads(filter_config(found))
        config["ingest"]["frobnicator"]["plugins"] = list(plugins)
        config["ingest"]["frobnicator"]["berth"].update(settings)
        flux.says("state", json.dumps(state(**{"config.get": config})))
        (only,) = check(found)
        return only

    return made


def test_the_frobnicator_as_it_should_be_is_sound(look: Check) -> None:
    assert look(str(FILTER_PATH), "defaults", "constraints").status is Status.OK


def test_each_fault_is_named(look: Check, tmp_path: Path) -> None:
    older = tmp_path / "frobnicator.py"
    older.write_text(FILTER_PATH.read_text() + "# older\n")
    stock, ours = ("defaults", "constraints"), str(FILTER_PATH)
    for found, status, says in (
        (look(*stock), Status.WARN, "names no frobnicator"),
        (look(*stock, ours), Status.WARN, "not the first"),
        (look(ours, *stock, deadline_ms=7), Status.WARN, "do not agree with the site file"),
        (look(str(tmp_path / "gone.py"), *stock), Status.FAIL, "there is no"),
        (look(str(older), *stock), Status.WARN, "another version's frobnicator"),
    ):
        assert (found.status, says in found.text) == (status, True), found
        assert "berth site flux filter-config" in (found.advice or "")
