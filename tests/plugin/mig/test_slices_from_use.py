"""Past jobs on whole GPUs, of which accounting recorded the use, are planned on slices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.plugin.cli.command_line import berth

SITE = """\
schema = "berth.site/1"
[site]
name = "lab"
[daemon]
store = "sqlite:///FOLDER/store.db"
[[candidates]]
name = "gpu"
platform = "a100-40gb"
partition = "gpu"
gres = "gpu:a100"
gpus_per_node = 4
cores_per_node = 32
memory_per_node = "256G"
"""
HEADER = (
    "JobID|User|Partition|State|Start|End|ElapsedRaw|AllocCPUS|NNodes|NTasks|ReqMem|MaxRSS"
    "|AllocTRES|TRESUsageInMax|TRESUsageInAve|JobName"
)


def run(*words: str) -> str:
    done = CliRunner().invoke(berth, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def import_jobs(folder: Path, memory: str, utilisation: str, host: str = "1G") -> list[str]:
    """Import eight jobs on one GPU each; return the options that name the site."""
    (folder / "berth.toml").write_text(SITE.replace("FOLDER", str(folder)))
    lines = [HEADER]
    used = f"gres/gpumem={memory},gres/gpuutil={utilisation}"
    for number in range(1, 9):
        start = 1_793_527_200 + 5_000 * number
        times = f"{start}|{start + 600}|600|8|1"
        lines += [
            f"{number}|alice|gpu|COMPLETED|{times}||64G||gres/gpu=1|||infer.sh",
            f"{number}.0||||{times}|1||{host}|gres/gpu=1|{used}|{used}|infer",
        ]
    (folder / "jobs.txt").write_text("\n".join(lines))
    here = ["--site", str(folder / "berth.toml")]
    run("jobs", "history", "import", str(folder / "jobs.txt"), "--utc", *here)
    return here


def workload_of(here: list[str]) -> str:
    (line, *_) = [
        one for one in run("workload", "list", *here).splitlines() if one.startswith("alice/")
    ]
    return line.split()[0]


def test_seven_jobs_of_3_gib_and_12_percent_share_one_gpu(tmp_path: Path) -> None:
    here = import_jobs(tmp_path, "3G", "12")
    fleet = {
        "schema": "berth.mig-fleet/1",
        "gpus": [{"name": "g1/0", "model": "A100-40GB", "layout": []}],
    }
    (tmp_path / "fleet.json").write_text(json.dumps(fleet))
    name = workload_of(here)
    words = ("mig", "plan", "--fleet", str(tmp_path / "fleet.json"), "--workload", f"{name}=7")
    planned = json.loads(run(*words, *here, "--json"))
    assert sum(len(gpu["placements"]) for gpu in planned["gpus"]) == 7
    said = run("mig", "recommend", name, "--gpu", "A100-40GB", *here)
    assert "Smallest: 1g.5gb." in said


@pytest.mark.parametrize(
    ("memory", "host", "smallest"),
    [("3G", "200G", "1g.5gb"), ("18G", "1G", "none"), ("10G", "1G", "3g.20gb"), ("0", "1G", "7g")],
)
def test_a_slice_is_chosen_by_gpu_memory_and_never_by_the_hosts(
    tmp_path: Path, memory: str, host: str, smallest: str
) -> None:
    here = import_jobs(tmp_path, memory, "30", host=host)
    said = run("mig", "recommend", workload_of(here), "--gpu", "A100-40GB", *here)
    expected = {"none": "Smallest: 7g.40gb.", "7g": "Smallest: 7g.40gb."}
    assert expected.get(smallest, f"Smallest: {smallest}.") in said
