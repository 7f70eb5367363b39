"""The sbatch line: what was asked, with the edit put in, quoted for a shell."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from berth.plugin.scheduler import Job
from berth.plugin.slurm.render import sbatch
from berth.policies.values import Edit, Request, Resources

SCRIPT = Job(("job.sh", "a b"), is_script=True, comment="berth:lu")


def asked(**changes: object) -> Request:
    values: dict[str, object] = {"user": "ada", "account": None, "resources": Resources(0, 4, 2)}
    return Request(**{**values, **changes})  # type: ignore[arg-type]


def test_the_request_alone() -> None:
    assert sbatch(SCRIPT, asked(account="physics", time_limit_s=90.0), None) == (
        "sbatch", "--ntasks=4", "--cpus-per-task=2", "--time=2", "--account=physics",
        "--comment=berth:lu", "job.sh", "a b",
    )  # fmt: skip


def test_the_edit_wins() -> None:
    edit = Edit(
        queue="gpu",
        gres="gpu:h100:2",
        resources=Resources(1, 2, 8, 2, 3 * 2**30 + 1),
        time_limit_s=3600.0,
    )
    request = asked(queue="auto", wants_placement=True, time_limit_s=60.0)
    assert sbatch(SCRIPT, request, edit)[1:8] == (
        "--partition=gpu", "--gres=gpu:h100:2", "--nodes=1", "--ntasks=2", "--cpus-per-task=8",
        "--mem=3073M", "--time=60",
    )  # fmt: skip


def test_what_the_user_wrote_stays() -> None:
    request = asked(queue="cpu", features="rome&ib", gres="gpu:1", qos="high")
    words = sbatch(SCRIPT, request, Edit())
    assert {"--partition=cpu", "--constraint=rome&ib", "--gres=gpu:1", "--qos=high"} <= set(words)


def test_gpus_without_a_type_are_asked_in_all() -> None:
    assert "--gpus=3" in sbatch(SCRIPT, asked(resources=Resources(0, 3, 1, 3)), None)


def test_a_command_is_wrapped_and_several_tasks_need_srun() -> None:
    one = asked(resources=Resources(1, 1, 1))
    assert sbatch(Job(("./a", "x y"), is_script=False), one, None)[-1] == "--wrap=./a 'x y'"
    assert sbatch(Job(("./a",), is_script=False), asked(), None)[-1] == "--wrap=srun ./a"


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0"), min_size=1), min_size=1))
def test_a_wrapped_command_comes_through_the_shell_unharmed(words: list[str]) -> None:
    request = asked(resources=Resources(1, 1, 1))
    line = shlex.join(sbatch(Job(tuple(words), is_script=False), request, None))
    wrapped = shlex.split(line)[-1].removeprefix("--wrap=")
    assert shlex.split(wrapped) == words
