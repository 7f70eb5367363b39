"""The README's "Use it by hand" typed word for word, and its excerpt of `make demo`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from small_models import convolutional
from toy_configs import LLAMA
from toy_profiles import PLATFORM, profile
from warm_berth import run_berth

from berth.pilot.documents import to_json
from berth.pilot.profile import ScalingPoint
from berth.plugin.site.load import DEMO_FILE
from berth.predictor.hardware import platforms

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
DEMO_SITE = (ROOT / "deploy" / "demo" / "site.toml").read_text()
ON_A_CLUSTER = ("sbatch ", "berth pilot submit ")
"""Typed on a private Slurm by ``test_readme_on_slurm.py``."""
APP = """\
#include <stdlib.h>
int main(int count, char **words) {
  int n = atoi(words[2]);
  volatile double *v = malloc(n * sizeof *v), s = 0;
  for (int i = 0; i < n; i++) v[i] = i;
  for (int i = 0; i < n; i++) s += v[i] * v[i];
  return s < 0;
}
"""


def typed() -> list[str]:
    """The lines of the section, in their order."""
    section = README.split("## Use it by hand")[1].split("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="nothing counts instructions here")
def test_every_command_works_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.c").write_text(APP)
    subprocess.run(["cc", "-O1", "-o", "app", "app.c"], cwd=tmp_path, check=True)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n./app --cells 400\n")
    (tmp_path / "resnet50.onnx").write_bytes(convolutional().SerializeToString())
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(LLAMA))
    store = f"sqlite:///{tmp_path}/store.db"
    site = f'{DEMO_FILE.read_text()}\n[daemon]\nstore = "{store}"\n'
    (tmp_path / "berth.toml").write_text(site)
    monkeypatch.setenv("BERTH_PLATFORM", "epyc-genoa-vm")
    monkeypatch.setenv("BERTH_SITE", str(tmp_path / "berth.toml"))
    said = {}
    for line in typed():
        if line.startswith(ON_A_CLUSTER):
            continue
        words = shlex.split(line)
        assert words[0] == "berth", line
        done = run_berth(*words[1:], cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        said[" ".join(words[1:3])] = done.stdout
    assert "SPEEDUP" in said["predict app.json"]
    assert "sbatch " in said["place app.json"]
    listed = run_berth("workload", "list", "--json", cwd=tmp_path)
    assert {one["name"] for one in json.loads(listed.stdout)} >= {"app", "llama", "resnet50"}


def test_the_excerpt_of_the_demo_looks_as_the_commands_print(tmp_path: Path) -> None:
    """Its figures are of one machine; columns, marks and sentences are those of today."""
    excerpt = README.split("An excerpt:\n\n```\n")[1].split("```")[0].splitlines()
    file, site = tmp_path / "stream.json", tmp_path / "site.toml"
    file.write_text(to_json(profile("stream", bytes_moved=2e9, runtime_s=0.17, threads=8)))
    site.write_text(demo_site(PLATFORM))
    placed = run_berth("place", file, "--site", site, "--cpus-per-task", "8", "--", "./stream")
    printed = placed.stdout.splitlines()
    (title,) = (line for line in printed if shape(line)[0] == "CANDIDATE" and "COST" in line)
    assert shape(title) in {shape(line) for line in excerpt}
    for start in ("Decision: ", "  sbatch ", "  WARNING: prior only"):
        shown = [line for line in excerpt if line.startswith(start)]
        assert shown, start
        assert any(line.startswith(start) for line in printed), start
    warning = next(line for line in printed if "WARNING" in line)
    assert warning in excerpt
    candidates = re.findall(r'^\[\[candidates\]\]\nname = "(.+)"', DEMO_SITE, re.MULTILINE)
    rows = [line for line in excerpt if line.split()[:1] and line.split()[0] in candidates]
    ranked = [line for line in rows if " cores " in line and "x to " in line]
    assert len(ranked) >= 3
    for line in ranked:
        assert len(shape(line)) == len(shape(title)), line
    for lines in (excerpt, printed):
        fastest = [line for line in lines if "is predicted fastest" in line]
        assert fastest
        for line in fastest:
            assert re.search(
                r"; it may also start in [\w, ]+, whichever has room first\.$", line
            ), line


@pytest.mark.parametrize("measured_on", ["quartz", "i7-12700h", "graviton2", "power9", PLATFORM])
@pytest.mark.parametrize(
    ("work", "place"),
    [
        ({"bytes_moved": 1e11, "flops": 5e9, "peak": 1e9}, "genoa"),
        ({"bytes_moved": 2e7, "flops": 5e10, "peak": 1e7}, "workstation"),
    ],
)
def test_the_demos_programs_belong_on_different_places_wherever_they_are_measured(
    work: dict[str, float], place: str, measured_on: str, tmp_path: Path
) -> None:
    """One that is limited by memory goes where the bandwidth is, the other to the fastest cores, by
    a margin that a machine at two thirds of its published rates leaves."""
    home = platforms.load()[measured_on]
    rates, threads = home.signature, min(8, home.cores)
    dram = rates.memory[-1]

    def seconds(cores: int) -> float:
        bandwidth = min(dram.total_bytes_per_s, cores * (dram.core_bytes_per_s or 0.0))
        flops = cores * (rates.flops_f64_core_per_s or 0.0)
        return 1.5 * max(work["bytes_moved"] / bandwidth, work["flops"] / flops)

    measured = profile(
        "app",
        platform=measured_on,
        threads=threads,
        runtime_s=seconds(threads),
        scaling=tuple(ScalingPoint(threads=n, runtime_s=seconds(n)) for n in (1, threads)),
        **work,
    )
    file, site = tmp_path / "app.json", tmp_path / "site.toml"
    file.write_text(to_json(measured))
    site.write_text(demo_site(measured_on))
    placed = run_berth(
        "place", file, "--site", site, "--no-state", "--cpus-per-task", "8", "--json"
    )
    decision = json.loads(placed.stdout)
    first, second = decision["ranked"][:2]
    assert decision["chosen"] == place
    assert second["runtime_s"]["mid"] > 1.2 * first["runtime_s"]["mid"]
    assert first["basis"] == "prior"


def demo_site(measured_on: str) -> str:
    """The demo's site file, with a shipped platform in place of the machine that it measures."""
    here = '[[platforms]]\nname = "here"\nfile = "platforms/here.json"\n'
    assert here in DEMO_SITE
    return DEMO_SITE.replace(here, "").replace('"here"', f'"{measured_on}"')


def shape(line: str) -> tuple[str, ...]:
    """The words of a line, without the widths of its columns."""
    return tuple(re.split(r"\s{2,}", line.strip()))
