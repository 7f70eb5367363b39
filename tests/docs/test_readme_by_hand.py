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
from toy_profiles import profile
from warm_berth import run_berth

from berth.pilot.documents import to_json
from berth.plugin.site.load import DEMO_FILE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
DEMO = (ROOT / "deploy" / "demo" / "run").read_text()
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
    file = tmp_path / "stream.json"
    file.write_text(to_json(profile("stream", bytes_moved=2e9, runtime_s=0.17)))
    named = re.findall(r"--platform (\S+)", DEMO.split("predict")[1].split("say")[0])
    ranked = run_berth("predict", file, *(word for n in named for word in ("--platform", n)))
    placed = run_berth("place", file, "--cpus-per-task", "16", "--", "./stream")
    printed = [*ranked.stdout.splitlines(), *placed.stdout.splitlines()]
    for line in (excerpt[0], next(one for one in excerpt if one.startswith("-- below"))):
        assert shape(line) in {shape(one) for one in printed}, (line, printed)
    for start in ("Decision: ", "  sbatch "):
        (shown,) = (one for one in excerpt if one.startswith(start))
        assert any(one.startswith(start) for one in printed), shown
    assert any("is predicted fastest: " in one for one in printed)
    for line in excerpt[1:]:
        if line.split(" ")[0] in named:
            assert len(re.split(r"\s{2,}", line)) == len(re.split(r"\s{2,}", excerpt[0])), line


def shape(line: str) -> tuple[str, ...]:
    """The words of a line, without the widths of its columns."""
    return tuple(re.split(r"\s{2,}", line.strip()))
