"""From the protocol's job to a Request, and the script's fingerprint."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.plugin.daemon.protocol import SubmittedJob, edits, parse_stamp
from berth.plugin.daemon.recognised import PastJobKeys
from berth.plugin.daemon.requests import (
    NamedWorkload,
    choice,
    effective_mode,
    gpus_in,
    request,
    sizes_of_tasks,
    task_array,
)
from berth.plugin.fingerprint import fingerprint, normalised
from berth.plugin.site.programs import SHIPPED_ONLY
from berth.policies.values import Decision, Edit, Mode, Request, Resources, TaskArray

MIB = 2**20


@pytest.mark.parametrize(
    ("comment", "chosen"),
    [
        ("berth:stream", NamedWorkload("stream")),
        ("berth:stream@2.5e3", NamedWorkload("stream", 2500.0)),
        ("run 7; berth:a.b+c-d_e, thanks", NamedWorkload("a.b+c-d_e")),
        ("berth:off", NamedWorkload(opted_out=True)),
        ("nothing for anybody", NamedWorkload()),
        ("see berthing:x or xberth:y", NamedWorkload()),
    ],
)
def test_the_comment_names_a_profile(comment: str, chosen: NamedWorkload) -> None:
    assert choice(SubmittedJob(comment=comment)) == chosen


@pytest.mark.parametrize("text", ["", "-x", "a b@", "a@", "a@0", "a@-1", "a@1e999", "a@nan", "é"])
def test_a_name_that_cannot_be_read_is_a_problem_and_not_a_guess(text: str) -> None:
    found = choice(SubmittedJob(comment=f"berth:{text}"))
    if text == "a b@":  # the word ends at the blank
        assert found == NamedWorkload("a")
    else:
        assert found.workload is None
        assert found.problem


def test_the_comment_may_hold_a_deadline() -> None:
    job = SubmittedJob(comment="berth:stream berth-deadline:6h")
    found = choice(job)
    assert found == NamedWorkload("stream")
    assert request(job, found, auto_queue=None).needs.finish_within_s == 6 * 3600.0
    plain = SubmittedJob(comment="my-berth-deadline:x")
    assert request(plain, choice(plain), auto_queue=None).needs.finish_within_s is None


@pytest.mark.parametrize(
    "text", ["", "soon", "-1h", "0s", "6", f"{'9' * 400}h", f"{'9' * 400}-00:00"]
)
def test_a_deadline_that_cannot_be_read_is_a_problem_with_its_own_code(text: str) -> None:
    job = SubmittedJob(comment=f"berth:stream berth-deadline:{text}")
    found = choice(job)
    assert found.problem is not None
    assert found.problem.startswith("--comment=berth-deadline:")
    assert found.code == "bad-deadline"
    assert request(job, found, auto_queue=None).needs.finish_within_s is None


def test_the_comment_is_stronger_than_the_environment() -> None:
    assert choice(SubmittedJob(comment="berth:a", workload="b")).workload == "a"
    assert choice(SubmittedJob(comment="hello", workload="b@3")) == NamedWorkload("b", 3.0)
    assert choice(SubmittedJob(comment="berth:off", workload="b")).opted_out
    assert choice(SubmittedJob(workload="off")).opted_out
    assert choice(SubmittedJob(mode="off", comment="berth:a")).opted_out


@given(st.sampled_from(Mode), st.sampled_from(Mode))
def test_a_job_lowers_the_mode_and_never_raises_it(site: Mode, job: Mode) -> None:
    order = list(Mode)
    assert order.index(effective_mode(site, job.value)) == min(order.index(site), order.index(job))


def test_a_word_that_is_no_mode_is_the_safest_mode() -> None:
    assert effective_mode(Mode.ENFORCE, "enforced") is Mode.OFF
    assert effective_mode(Mode.ADVISE, None) is Mode.ADVISE
    assert effective_mode(Mode.ADVISE, "") is Mode.ADVISE


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        (None, 0),
        ("", 0),
        ("gpu", 1),
        ("gpu:2", 2),
        ("gpu:a100:3", 3),
        ("gpu:a100", 1),
        ("gres:gpu:2", 2),
        ("gres/gpu=2", 2),
        ("gres/gpu:h200=4", 4),
        ("gres:gpu:a100_3g.20gb:1", 1),
        ("gpu:a:1,gpu:b:2,lustre:1", 3),
        ("gpu:2(S:0-1)", 2),
        ("license:4", 0),
        ("gpufan:4", 0),
    ],
)
def test_gpus_of_a_gres(gres: str | None, gpus: int) -> None:
    assert gpus_in(gres) == gpus


@pytest.mark.parametrize(
    ("indices", "tasks"),
    [
        (None, 1),
        ("", 1),
        ("7", 1),
        ("0-9", 10),
        ("0-9%2", 10),
        ("0-9:2", 5),
        ("1,3,5-6", 4),
        ("9-0", 1),
        ("0-9:0", 10),
        ("x", 1),
        ("0-999999999:1", 10**9),
    ],
)
def test_tasks_of_an_array(indices: str | None, tasks: int) -> None:
    found = task_array(indices)
    assert (1 if found is None else found.tasks) == tasks


@pytest.mark.parametrize(
    ("indices", "at_once"),
    [("0-59%4", 4), ("0-59", None), ("0-59%", None), ("0-59%0", None), ("0-59%x", None),
     ("0-59%-1", None), ("1,5%1", 1)],
)  # fmt: skip
def test_how_many_tasks_of_an_array_may_run_at_a_time(indices: str, at_once: int | None) -> None:
    found = task_array(indices)
    assert found is not None
    assert found.at_once == at_once


@pytest.mark.parametrize(
    ("text", "indices", "sizes"),
    [
        ("lu@100:250:100", "0-2", ((100.0, 2), (250.0, 1))),
        ("lu@100+10i", "0-4:2%2", ((100.0, 1), (120.0, 1), (140.0, 1))),
        ("lu@10i", "1-2", ((10.0, 1), (20.0, 1))),
        ("lu@1e3-.5i", "0,1000", ((500.0, 1), (1000.0, 1))),
        ("lu@1e+2i", "3,1", ((100.0, 1), (300.0, 1))),
    ],
)
def test_tasks_of_an_array_may_have_sizes_of_their_own(
    text: str, indices: str, sizes: tuple[tuple[float, int], ...]
) -> None:
    for job in (
        SubmittedJob(comment=f"berth:{text}", array=indices),
        SubmittedJob(workload=text, array=indices),
    ):
        found = choice(job)
        assert (found.workload, found.problem) == ("lu", None)
        asked = request(job, found, auto_queue=None)
        assert asked.array is not None
        assert asked.array.sizes == sizes
        assert asked.size == sizes[-1][0]


def test_equal_sizes_and_single_tasks_are_as_any_size() -> None:
    job = SubmittedJob(comment="berth:lu@7:7:7", array="0-2%2")
    asked = request(job, choice(job), auto_queue=None)
    assert (asked.size, asked.array) == (7.0, TaskArray(3, 2))
    single = SubmittedJob(comment="berth:lu@100+10i", array="5")
    asked = request(single, choice(single), auto_queue=None)
    assert (asked.size, asked.array) == (150.0, None)


@pytest.mark.parametrize(
    ("text", "indices", "words"),
    [
        ("1:2", None, "for arrays"),
        ("100+10i", "x", "for arrays"),
        ("1:2", "0-2", "names 2 sizes for an array of 3 tasks"),
        ("1:2:x", "0-2", "NAME@SIZE"),
        ("1:2:e", "0-2", "not a positive number"),
        ("1::3", "0-2", "not a positive number"),
        ("1:0:3", "0-2", "not a positive number"),
        ("1:1e999:3", "0-2", "not a positive number"),
        ("100-50i", "0-2", "would not be a positive number"),
        ("0i", "0-2", "would not be a positive number"),
        ("10i", "0-2", "would not be a positive number"),
        ("1e999i", "1-2", "would not be a positive number"),
        ("1e300+1e308i", "1-20", "would not be a positive number"),
        ("i", "1-2", "written as 100+10i"),
        ("10i+3", "1-2", "written as 100+10i"),
        ("1:2i", "1-2", "written as 100+10i"),
        ("10i", "1-20000", "at most 10000 tasks"),
        ("10i", "1-999999999", "at most 10000 tasks"),
        (":".join(["1"] * 3000), "1-3000", "NAME@SIZE"),
    ],
)
def test_sizes_that_cannot_be_read_are_a_problem_in_one_sentence(
    text: str, indices: str | None, words: str
) -> None:
    found = choice(SubmittedJob(comment=f"berth:lu@{text}", array=indices))
    assert found.workload is None
    assert found.problem is not None
    assert words in found.problem
    assert len(found.problem) < 300


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=500))
def test_many_sizes_are_grouped_and_none_is_counted_smaller(sizes: list[int]) -> None:
    groups = sizes_of_tasks(":".join(map(str, sizes)), f"0-{len(sizes) - 1}")
    assert len(groups) <= 32
    assert sum(count for _, count in groups) == len(sizes)
    assert [size for size, _ in groups] == sorted({size for size, _ in groups})
    assert groups[-1][0] == max(sizes)
    counted = [size for size, count in groups for _ in range(count)]
    assert all(own <= size for own, size in zip(sorted(sizes), counted, strict=True))


@given(st.text(alphabet="0123456789.:+-ei", max_size=40), st.sampled_from([None, "0-3", "7", "x"]))
def test_any_text_after_the_name_is_read_or_a_sentence(text: str, indices: str | None) -> None:
    job = SubmittedJob(comment=f"berth:lu@{text}", array=indices)
    found = choice(job)
    assert (found.problem is None) == (found.workload == "lu")
    if found.problem is None:
        asked = request(job, found, auto_queue=None)
        assert asked.size is not None
        assert asked.size > 0


@pytest.mark.parametrize(
    ("job", "resources"),
    [
        (SubmittedJob(), Resources(0, 1, 1, 0, None)),
        (SubmittedJob(tasks=32), Resources(0, 32, 1, 0, None)),
        (SubmittedJob(nodes=4), Resources(4, 4, 1, 0, None)),
        (SubmittedJob(nodes=4, tasks_per_node=8), Resources(4, 32, 1, 0, None)),
        (SubmittedJob(nodes=2, gres="gpu:3"), Resources(2, 2, 1, 6, None)),
        (SubmittedJob(gpus=3, gres="gpu:1"), Resources(0, 1, 1, 3, None)),
        (SubmittedJob(memory_mib_per_node=10), Resources(0, 1, 1, 0, 10 * MIB)),
        (
            SubmittedJob(nodes=2, tasks=3, cpus_per_task=2, memory_mib_per_cpu=10),
            Resources(2, 3, 2, 0, 40 * MIB),  # two tasks on the fuller node
        ),
        (SubmittedJob(nodes=2, gpus=3, memory_mib_per_gpu=10), Resources(2, 2, 1, 3, 20 * MIB)),
        (SubmittedJob(gpus=3, memory_mib_per_gpu=10), Resources(0, 1, 1, 3, 30 * MIB)),
        (SubmittedJob(memory_mib_per_gpu=10), Resources(0, 1, 1, 0, None)),
    ],
)
def test_what_is_asked_for(job: SubmittedJob, resources: Resources) -> None:
    assert request(job, NamedWorkload(), auto_queue=None).resources == resources


def test_only_the_auto_queue_asks_for_placement() -> None:
    for queue, auto, wants in (
        ("auto", "auto", True),
        ("cpu", "auto", False),
        (None, "auto", False),
        ("auto", None, False),
    ):
        assert (
            request(SubmittedJob(queue=queue), NamedWorkload(), auto_queue=auto).wants_placement
            is wants
        )


def test_explicit_choices_and_rights_are_carried_over() -> None:
    job = SubmittedJob(
        user="alice",
        account="physics",
        reservation="maintenance",
        pinned=("qos", "nodelist"),
        qos="long",
        features="avx512",
        gres="gpu:1",
        queues=("a", "b"),
        time_limit_min=90,
        array="0-9",
    )
    made = request(job, NamedWorkload("stream", 3.0), auto_queue="auto")
    assert made.pinned == ("nodelist", "qos", "reservation")
    assert (made.user, made.account, made.qos) == ("alice", "physics", "long")
    assert (made.features, made.gres) == ("avx512", "gpu:1")
    assert made.allowed_queues == {"a", "b"}
    assert (made.time_limit_s, made.array_tasks) == (5400.0, 10)
    assert (made.workload, made.size) == ("stream", 3.0)
    assert request(SubmittedJob(uid=7), NamedWorkload(), auto_queue=None).user == "uid:7"
    assert (
        request(SubmittedJob(queues=()), NamedWorkload(), auto_queue=None).allowed_queues
        == frozenset()
    )


SCRIPT = """#!/bin/bash -l
#SBATCH --ntasks=4
#SBATCH --time=60

# My great job
module load app
srun ./app \\
   #input
cat > code.c <<END
#include <stdio.h>

END
./last
"""


def test_the_normal_form_of_a_script() -> None:
    assert normalised(SCRIPT) == (
        "#!bash -l\nmodule load app\nsrun ./app \\\n   #input\ncat > code.c <<END\n"
        "#include <stdio.h>\n\nEND\n./last\n"
    )


@pytest.mark.parametrize(
    "other",
    [
        SCRIPT.replace("\n", "\r\n"),
        SCRIPT.replace("#SBATCH --ntasks=4\n", "#SBATCH --ntasks=8\n#SBATCH -p gpu\n"),
        SCRIPT.replace("# My great job", "#   another comment"),
        SCRIPT.replace("module load app", "module load app   \n\n"),
        SCRIPT.replace("#!/bin/bash -l", "#!/usr/bin/env bash -l"),
        SCRIPT + "\n\n",
    ],
)
def test_what_only_changes_the_submission_keeps_the_fingerprint(other: str) -> None:
    assert fingerprint(other) == fingerprint(SCRIPT)


@pytest.mark.parametrize(
    "other",
    [
        SCRIPT.replace("./last", "./first"),
        SCRIPT.replace("#include <stdio.h>", "#include <math.h>"),
        SCRIPT.replace("#input", "#output"),
        SCRIPT.replace("bash -l", "zsh -l"),
        SCRIPT.replace("bash -l", "bash"),
        SCRIPT.replace("srun ./app", "  srun ./app"),
    ],
)
def test_what_changes_the_program_changes_the_fingerprint(other: str) -> None:
    assert fingerprint(other) != fingerprint(SCRIPT)


@pytest.mark.parametrize(
    ("first", "normal"),
    [
        ("#!/bin/bash", "#!bash"),
        ("#!/usr/bin/env bash", "#!bash"),
        ("#!/usr/bin/env -S bash -l", "#!bash -l"),
        ("#!/usr/bin/env -S bash -e -u", "#!bash -e -u"),
        ("#!/usr/bin/env -S", "#!-S"),
        ("#!/usr/bin/env", "#!env"),
        ("#!", "#!"),
    ],
)
def test_of_the_first_line_the_interpreter_and_its_options_stay(first: str, normal: str) -> None:
    assert normalised(f"{first}\nrun\n") == f"{normal}\nrun\n"


def test_arguments_are_part_of_the_fingerprint_and_kept_apart() -> None:
    known = {
        fingerprint(SCRIPT, arguments)
        for arguments in ((), ("a",), ("a", "b"), ("ab",), ("a b",), ("", "a"))
    }
    assert len(known) == 6


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_has_a_stable_fingerprint(script: str, arguments: list[str]) -> None:
    assert fingerprint(script, arguments) == fingerprint(script, arguments)
    assert fingerprint(normalised(script)) == fingerprint(normalised(normalised(script)))


def test_memory_is_asked_in_whole_mib_and_never_less() -> None:
    asked = Request("alice", None, Resources(1, 1, 1, 0, 5 * 2**20))
    for wanted, mib in ((7 * 2**20, 7), (7 * 2**20 + 1, 8), (1, 1)):
        edit = Edit(resources=replace(asked.resources, memory_bytes_per_node=wanted))
        decision = Decision("", "cpu", (), edit, "", "fastest", "", "")
        assert edits(asked, decision) == {"memory_mib_per_node": mib}


def test_past_jobs_are_looked_for_by_all_cores_of_the_job() -> None:
    """A job of 2 tasks with 3 cores each is like one of 6 tasks, not like one of 3."""
    lu = "#!/bin/sh\n./lu\n"
    keys = [
        set(PastJobKeys(SubmittedJob(user="ada", script=lu, **shape), SHIPPED_ONLY))
        for shape in (
            {"tasks": 2, "cpus_per_task": 3}, {"tasks": 6}, {"tasks": 3}, {"tasks": 512},
        )
    ]  # fmt: skip
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]
    assert keys[0] != keys[3]


def test_a_raised_time_limit_is_in_whole_minutes_upwards() -> None:
    def limit_min(seconds: float) -> object:
        edit = Edit(time_limit_s=seconds)
        made = Decision("id", "cpu", (), edit, "", "fastest", "", "")
        return edits(Request("ada", None, Resources()), made)["time_limit_min"]

    assert [limit_min(s) for s in (1.0, 60.0, 61.0, 7200.0)] == [1, 1, 2, 120]


def asked(**job: object) -> Request:
    made = SubmittedJob(user="ada")
    for name, value in job.items():
        setattr(made, name, value)
    return request(made, NamedWorkload(), auto_queue="auto")


def test_all_memory_of_a_node_is_asked_for_by_zero_alone() -> None:
    assert asked(memory_mib_per_node=0).needs.all_memory
    one = asked(memory_mib_per_node=1)
    assert (one.needs.all_memory, one.resources.memory_bytes_per_node) == (False, MIB)
    assert not asked().needs.all_memory


def test_memory_by_core_or_gpu_is_that_of_the_fullest_node() -> None:
    by_core = asked(memory_mib_per_cpu=10, tasks=3, nodes=2).resources.memory_bytes_per_node
    by_gpu = asked(memory_mib_per_gpu=10, gpus=5, nodes=2).resources.memory_bytes_per_node
    assert (by_core, by_gpu) == (20 * MIB, 30 * MIB)
    assert isinstance(by_core, int)


@pytest.mark.parametrize(
    ("deadline", "problem"), [("00:00:01", None), ("0s", "over at once"), ("00:00:00", "over")]
)
def test_a_deadline_is_at_least_a_second_away(deadline: str, problem: str | None) -> None:
    found = choice(SubmittedJob(user="ada", comment=f"berth-deadline:{deadline}")).problem
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize("text", ["", "   ", "hello", "berth/2 id=1"])
def test_other_text_is_no_stamp(text: str) -> None:
    assert parse_stamp(text) is None


def test_fewer_tasks_and_cores_are_changes_too() -> None:
    request_ = Request("ada", None, Resources(nodes=4, tasks=8, cpus_per_task=6))
    edit = Edit(resources=Resources(nodes=2, tasks=3, cpus_per_task=5))
    made = Decision("id", "cpu", (), edit, "", "fastest", "", "")
    assert edits(request_, made) == {"nodes": 2, "tasks": 3, "cpus_per_task": 5}
