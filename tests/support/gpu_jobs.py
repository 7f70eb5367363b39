"""A site whose accounting recorded what eight jobs used of one GPU each."""

from __future__ import annotations

from pathlib import Path

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
