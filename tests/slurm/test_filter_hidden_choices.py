"""Choices that Slurm hides from Lua hold whatever the script that makes them looks like."""

from __future__ import annotations

import pytest
from fake_daemon import KEEP, FakeDaemon, move_to
from filter_bench import FilterBench, Outcome

AUTO = {"partition": "auto", "comment": "berth:app"}
HIDDEN = "#SBATCH --gres=none\n"


def submitted(
    bench: FilterBench,
    script: bytes,
    *,
    arguments: list[str] | None = None,
    environment: dict[str, str] | None = None,
) -> Outcome:
    """A job that the daemon sends to the partition ``gpu``."""
    order: dict[str, object] = {"argv": arguments} if arguments else {}
    if script.isascii():
        job = {**AUTO, "script": script.decode()}
    else:
        job, order["script_bytes"] = dict(AUTO), list(script)
    move = {**move_to("gpu", gres="gpu:h200:1"), "stamp": "berth/1 id=x action=edit code=placed"}
    with FakeDaemon(bench.socket, lambda _: move):
        return bench.submit(job, environment=environment, **order)


def is_kept(outcome: Outcome) -> bool:
    kept = outcome.job["partition"] == "auto" and "gres" not in outcome.job
    stamp = outcome.job["admin_comment"]
    assert ("code=untranslated" in stamp and "action=keep" in stamp) is kept
    assert outcome.complaints == []
    assert outcome.codes == [0]
    return kept


UNSENT = {
    "Latin-1 in a comment": (f"#!/bin/bash\n{HIDDEN}".encode() + b"# caf\xe9\n./app\n", None),
    "over 64 KiB": (f"#!/bin/bash\n{HIDDEN}#{'x' * 66000}\n./app\n".encode(), None),
    "after 64 KiB of comment": (f"#!/bin/bash\n#{'x' * 66000}\n{HIDDEN}./app\n".encode(), None),
    "300 arguments": (f"#!/bin/bash\n{HIDDEN}./app\n".encode(), ["job.sh", *["1"] * 300]),
    "5 KB of arguments": (f"#!/bin/bash\n{HIDDEN}./app\n".encode(), ["job.sh", "x" * 5000]),
    "binary after the head": (
        f"#!/bin/bash\n{HIDDEN}exit\n".encode() + bytes(range(1, 256)) * 4,
        None,
    ),
}


@pytest.mark.parametrize("name", UNSENT)
def test_a_script_that_is_not_sent_keeps_its_choices(bench: FilterBench, name: str) -> None:
    script, arguments = UNSENT[name]
    assert is_kept(submitted(bench, script, arguments=arguments))
    plain = script.replace(HIDDEN.encode(), b"")
    assert not is_kept(submitted(bench, plain, arguments=arguments))


@pytest.mark.parametrize(
    "head",
    [
        "#SBATCH --gres=none",
        "#SBATCH --gres none",
        "#SBATCH --gres=NONE  # no GPU",
        "#SBATCH --gre=none",
        "#SBATCH\t-n 2 --gres=none -t 10",
        "#SBATCH -J 'a name' --gres='none'",
        '#SBATCH --gr"es=no"ne',
        "#SBATCH --g\\res=none",
        "#SBATCH --gres\n#SBATCH none",
        "#SBATCH --gres=none\r",
        "#SLURM --gres=none",
        "#SBATCH--gres=none",
        "# a comment\n\n   \n#SBATCH --gres=none",
        "#SBATCH --gpus-per-task=0",
        "#SBATCH --gpus-per-task=gpu:0",
        "#SBATCH --deadline=2030-01-01",
        "#SBATCH --dead 2030-01-01",
        "#SBATCH --core-spec=2",
        "#SBATCH -S2",
        "#SBATCH -S 2",
        "#SBATCH -HS 2",
        "#SBATCH --thread-spec=2",
        "#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH --gres=none",
        "#BB create_persistent name=a capacity=1",
        "#DW jobdw capacity=10GB",
    ],
)
def test_a_hidden_directive_keeps_the_job_in_every_form(bench: FilterBench, head: str) -> None:
    assert is_kept(submitted(bench, f"#!/bin/bash\n{head}\n./app\n".encode()))


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/bash\n./app\n#SBATCH --gres=none\n",
        "#!/bin/bash\n  #SBATCH --gres=none\n./app\n",
        "#!/bin/bash\n##SBATCH --gres=none\n./app\n",
        "#!/bin/bash\n#SBATCH -n 2 # --gres=none\n./app\n",
        "#!/bin/bash\n#SBATCH --comment='see --deadline -S'\n./app\n",
        "#!/bin/bash\n#SBATCH --gpus=0 --gpus-per-task=10 --threads-per-core=1 -J-S\n./app\n",
        "#!/bin/bash\n#SBATCH -n 1 \\\n./app --gres=none\n",
        "#!/bin/bash\n#SBATCH --job-name='unfinished\n./app\n",
        "#!/bin/bash",
        "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n./app --gres=none\n",
    ],
)
def test_what_sbatch_does_not_read_as_such_a_choice_keeps_nothing(
    bench: FilterBench, script: str
) -> None:
    assert not is_kept(submitted(bench, script.encode()))


@pytest.mark.parametrize("head", ["#SBATCH -n 1\n" * 2000, "# x\n" * 6000, f"#{'x' * 1_100_000}\n"])
def test_a_script_whose_directives_have_no_end_keeps_the_job_in_bounded_time(
    bench: FilterBench, head: str
) -> None:
    assert is_kept(submitted(bench, f"#!/bin/bash\n{head}./app\n".encode()))


@pytest.mark.parametrize(
    ("variable", "value", "kept"),
    [
        ("SBATCH_GRES", "none", True),
        ("SBATCH_GRES", "gpu:1", False),
        ("SBATCH_GPUS_PER_TASK", "0", True),
        ("SBATCH_CORE_SPEC", "2", True),
        ("SBATCH_THREAD_SPEC", "2", True),
    ],
)
def test_a_choice_of_sbatchs_environment_counts(
    bench: FilterBench, variable: str, value: str, kept: bool
) -> None:
    outcome = submitted(bench, b"#!/bin/sh\n./app\n", environment={variable: value})
    assert is_kept(outcome) is kept


def test_the_daemon_hears_that_there_is_a_script_which_it_does_not_see(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit(AUTO)
        bench.submit(AUTO, script_bytes=list(b"#!/bin/sh\n# caf\xe9\n"))
        bench.submit(AUTO, argv=["job.sh", "x" * 5000])
        bench.submit(AUTO, batch=False)
    unread = [request["job"].get("script_unread") for request in daemon.requests]
    assert unread == [None, 1, 1, None]
