"""The commands of docs/flux.md, in their order, on a private instance."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from berth_daemon import wait_until
from flux_bench import load_filter
from flux_daemon import FluxHarbour, flux_harbour
from flux_instance import LiveFlux, frobnicators, live_flux, why_no_flux

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "flux.md"
FLUXION = ROOT / "examples" / "fluxion-slices" / "README.md"
BLOCK = re.compile(r"^```([\w ]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str, page: Path = DOCS) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


class Shell:
    """Runs the page's commands with the page's paths moved into the instance's folders."""

    def __init__(self, flux: LiveFlux, harbour: FluxHarbour) -> None:
        self.flux, self.harbour = flux, harbour
        self.daemon: subprocess.Popen[bytes] | None = None
        self.paths = {
            "/etc/flux/system/conf.d/berth.toml": str(flux.config / "ingest.toml"),
            "/etc/berth/": f"{harbour.folder}/",
            "/run/berth/": f"{harbour.folder}/",
            "/var/lib/berth/": f"{harbour.folder}/",
        }
        (flux.folder / "app").write_text("#!/bin/sh\necho hello\n")
        (flux.folder / "app").chmod(0o755)

    def run(self, block: str) -> str:
        for old, new in self.paths.items():
            block = block.replace(old, new)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**self.flux.environment, "PATH": path}
        if block.rstrip().endswith("&"):
            words = block.rstrip().removesuffix("&").split()
            self.daemon = subprocess.Popen(
                words, env=environment, cwd=self.flux.folder, stderr=subprocess.DEVNULL
            )
            return ""
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            env=environment,
            cwd=self.flux.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or "berth site doctor" in block, f"{block}\n{done.stderr}"
        return done.stdout

    def edit_site(self) -> None:
        """What the page asks the administrator to look through."""
        site = self.harbour.folder / "berth.toml"
        text = site.read_text()
        folder = self.harbour.folder
        text = text.replace(
            "[daemon]",
            f'[daemon]\nsocket = "{folder}/berth.sock"\nkill_switch = "{folder}/off"\n'
            f'store = "sqlite:///{folder}/store.db"',
        )
        site.write_text(text)


@pytest.mark.flux
@pytest.mark.timeout(300)
@pytest.mark.skipif(why_no_flux() is not None, reason=f"NOT TESTED LIVE: {why_no_flux()}")
def test_every_command_of_the_page_works_in_its_order() -> None:
    with flux_harbour() as harbour, live_flux(frobnicators()) as flux:
        harbour.site_file.unlink()
        shell = Shell(flux, harbour)
        shown = {}
        try:
            for block in blocks("sh"):
                shown[block] = shell.run(block)
                if "berth site init" in block:
                    shell.edit_site()
                    shell.run(block.splitlines()[1])
                if block.rstrip().endswith("&"):
                    wait_until(harbour.socket.exists, what="the daemon listens")
        finally:
            if shell.daemon is not None:
                shell.daemon.terminate()
                shell.daemon.wait(20)
        text = "\n".join(shown.values())
        assert "agrees with the site file" in text
        assert '"mode": "off"' in text or '"mode":"off"' in text
        assert "shadow" in text
        assert "no pending job was placed by Berth" in text


def test_the_page_names_every_setting_of_the_filter() -> None:
    module = load_filter()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`|]*)` \|", DOCS.read_text(), re.MULTILINE))
    assert {key: str(value) for key, value in module.DEFAULTS.items()} == {
        key: rows.get(key) for key in module.DEFAULTS
    }


def test_the_pages_configuration_is_toml() -> None:
    tables = [tomllib.loads(block) for block in blocks("toml")]
    assert any("queues" in table for table in tables)
    assert any("candidates" in table for table in tables)


def test_slices_of_the_fluxion_example_are_flat_vertices_of_their_node() -> None:
    (graph,) = [json.loads(block)["graph"] for block in blocks("json graph", FLUXION)]
    vertices = {vertex["id"]: vertex["metadata"] for vertex in graph["nodes"]}
    parents = {edge["target"]: edge["source"] for edge in graph["edges"]}
    assert set(parents) == set(vertices) - {"0"}  # a tree
    for name, vertex in vertices.items():
        path = vertex["paths"]["containment"]
        assert path.rsplit("/", 1)[0] == (
            vertices[parents[name]]["paths"]["containment"] if name in parents else ""
        )
        if vertex["type"] in ("core", "mig1g"):
            assert vertices[parents[name]]["type"] == "node"
    assert [v["type"] for v in vertices.values()].count("mig1g") == 2


def test_a_job_that_asks_for_a_type_of_its_own_keeps_its_shape() -> None:
    (spec,) = [json.loads(block) for block in blocks("json jobspec", FLUXION)]
    shape = load_filter().Shape(spec)
    assert shape.fixed
    assert (shape.tasks, shape.gpus) == (1, 0)


@pytest.mark.flux
@pytest.mark.skipif(why_no_flux() is not None, reason=f"NOT TESTED LIVE: {why_no_flux()}")
def test_flux_takes_the_job_of_the_fluxion_example() -> None:
    (spec,) = blocks("json jobspec", FLUXION)
    with live_flux(frobnicators(), size=1) as flux:
        job = flux.run("job", "submit", "--urgency=0", stdin=spec).strip()
        assert flux.jobspec(job)["resources"] == json.loads(spec)["resources"]
