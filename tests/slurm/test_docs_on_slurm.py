"""The commands of docs/slurm.md, in their order, on a private cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_daemon import KEEP, FakeDaemon
from slurm_cluster import Cluster, wait_until

from berth.plugin.slurm.filter import FILTER_PATH

DOCS = Path(__file__).resolve().parents[2] / "docs" / "slurm.md"
EXAMPLE = DOCS.parents[1] / "examples" / "slurm-site-rules" / "job_submit.lua"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(DOCS.read_text()) if kind == language]


class Shell:
    """Runs the page's commands with the page's paths moved into the cluster's folder."""

    def __init__(self, slurm: Cluster) -> None:
        self._slurm = slurm
        self._paths = {
            "/etc/slurm/": f"{slurm.etc}/",
            "/etc/berth/": f"{slurm.etc}/berth/",
            "/run/berth/": f"{slurm.root}/run/",
            "/var/lib/berth/": f"{slurm.root}/store/",
        }

    def moved(self, text: str) -> str:
        for old, new in self._paths.items():
            text = text.replace(old, new)
        return text

    def run(self, block: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:{self._slurm.environment['PATH']}"
        text = self.moved(block)
        if text.rstrip().endswith("&"):
            command = text.rstrip().removesuffix("&").split()
            self._slurm.launch("berth-docs", *command, env={"PATH": path})
            return subprocess.CompletedProcess(command, 0, "", "")
        return self._slurm.run("sh", "-e", "-c", text, env={"PATH": path})

    def edit_site(self) -> None:
        """What the page asks the administrator to look through."""
        site = self._slurm.etc / "berth" / "berth.toml"
        text = self.moved(site.read_text())
        lines = [
            line
            for line in text.splitlines()
            if not re.match(r"#? ?(socket|store|kill_switch|scheduler_users|auto_partition|"
                            r"reference_partition|reference_platform)\b", line)
        ]  # fmt: skip
        text = "\n".join(line for line in lines if line not in ("[daemon]",))
        text = text.replace(
            "[site]",
            '[site]\nauto_partition = "auto"\nreference_partition = "cpu"\n'
            'reference_platform = "quartz"',
            1,
        )
        root = self._slurm.root
        text += (
            f'\n[daemon]\nsocket = "{root}/run/berth.sock"\nscheduler_users = ["root"]\n'
            f'store = "sqlite:///{root}/store/docs.db"\n'
            f'kill_switch = "{self._slurm.etc}/berth/off"\n'
        )
        site.write_text(text)


@pytest.fixture
def shell(slurm: Cluster) -> Iterator[Shell]:
    (slurm.etc / "berth").mkdir()
    (slurm.root / "store").mkdir(exist_ok=True)
    for name in ("app", "job.sh"):
        (slurm.work / name).write_text("#!/bin/sh\necho hello\n")
        (slurm.work / name).chmod(0o755)
    yield Shell(slurm)
    if "berth-docs" in slurm.pids:
        slurm.end("berth-docs")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_command_of_the_page_works_in_its_order(slurm: Cluster, shell: Shell) -> None:
    commands = blocks("sh")
    shown = {}
    for block in commands:
        shown[block] = shell.run(block).stdout
        if "berth site init" in block:
            shell.edit_site()
            shell.run(block.splitlines()[1])
            (slurm.etc / "filter.conf").write_text((slurm.etc / "berth/filter.conf").read_text())
        if block.rstrip().endswith("&"):
            wait_until(slurm.berth_socket.exists, "the daemon listens", 10)
        if "pilot submit" in block:
            found = re.findall(r"ob (\d+)", shown[block])
            for job in found:
                slurm.wait_for_state(job, timeout_s=120)
    text = "\n".join(shown.values())
    assert "shadow" in text
    assert "Submitted batch job" in text
    assert "demo" in next(out for block, out in shown.items() if "berth jobs decisions" in block)
    assert (slurm.etc / "job_submit.lua").read_text() == FILTER_PATH.read_text()


def test_the_pages_chained_filter_loads_and_asks_berth(slurm: Cluster) -> None:
    assert str(EXAMPLE.relative_to(DOCS.parents[1])) in DOCS.read_text()
    chained = EXAMPLE.read_text()
    (slurm.etc / "berth_submit.lua").write_text(FILTER_PATH.read_text())
    slurm.set_job_submit(chained.replace("/etc/slurm/", f"{slurm.etc}/"))
    with FakeDaemon(slurm.berth_socket, lambda _: {**KEEP, "message": "asked"}):
        job = slurm.sbatch("-p", "auto")
    assert job.message == "sbatch: berth: note: asked\n"


def test_the_page_names_every_key_of_the_filters_configuration() -> None:
    source = FILTER_PATH.read_text()
    keys = re.search(r"local config = \{(.*?)\n\}", source, re.DOTALL)
    assert keys is not None
    defaults = dict(re.findall(r"^  (\w+) = (.*),$", keys.group(1), re.MULTILINE))
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]*?)`? \|", DOCS.read_text(), re.MULTILINE))
    assert {k: v.strip('"') for k, v in defaults.items()} == {k: rows.get(k) for k in defaults}
