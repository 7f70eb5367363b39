"""Accounting as it comes: every version's columns, and every way in which it is broken."""

from __future__ import annotations

import json

import pytest

from berth.pilot.errors import DocumentError, SchedulerError
from berth.plugin.flux.accounting import read_flux
from berth.plugin.flux.present_jobs import job_name
from berth.plugin.history.matching import JobDescription, describe_job
from berth.plugin.history.swf import read_swf
from berth.plugin.scheduler.past_jobs import ReadJobs, summary, text_of
from berth.plugin.slurm import accounting, commands, submitted
from berth.plugin.slurm.sacct import COLUMNS, read_sacct
from berth.plugin.slurm.submitted import parse_scripts, scripts_of

GIB = 2**30
HEADER = (
    "JobID|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|NNodes"
    "|NTasks|ReqMem|MaxRSS|AllocTRES|TRESUsageInMax|TRESUsageInAve|TRESUsageInTot|TRESUsageOutTot"
    "|NodeList|TotalCPU|ConsumedEnergyRaw|AdminComment|JobName"
)


def row(
    job_id: str = "7",
    *,
    user: str = "alice",
    state: str = "COMPLETED",
    submit: str = "2026-11-01T10:00:00",
    start: str = "2026-11-01T10:00:10",
    end: str = "2026-11-01T10:10:10",
    elapsed: str = "600",
    nodes: str = "1",
    tasks: str = "",
    memory: str = "64G",
    peak: str = "",
    usage: str = "",
    mean: str = "",
    disk: tuple[str, str] = ("", ""),
    hosts: str = "cn1",
    cpu_time: str = "00:40:00",
    energy: str = "0",
    comment: str = "",
    allocated: str = "cpu=4,gres/gpu=2",
    name: str = "align.sh",
) -> str:
    return "|".join(
        (job_id, user, "phys", "cpu", state, submit, start, end, elapsed, "60", "4", nodes, tasks,
         memory, peak, allocated, usage, mean, *disk, hosts, cpu_time, energy, comment, name)
    )  # fmt: skip


def sacct(*lines: str, header: str = HEADER) -> ReadJobs:
    return read_sacct([header, *lines], "lab", source="jobs.txt", utc=True)


def step(job_id: str, peak: str, *, tasks: str = "1", nodes: str = "1") -> str:
    return row(job_id, user="", peak=peak, tasks=tasks, nodes=nodes, name="batch")


def test_a_job_with_its_steps() -> None:
    read = sacct(row(), step("7.batch", "1G"), step("7.0", "2G"), step("7.extern", ""))
    job = read.jobs["7"]
    assert (job.user, job.account, job.partition, job.name) == ("alice", "phys", "cpu", "align.sh")
    assert (job.elapsed_s, job.cores, job.gpus, job.time_limit_s) == (600.0, 4, 2, 3600.0)
    assert (job.request_bytes, job.peak_bytes, job.peak_source) == (64 * GIB, 3 * GIB, "polled")
    assert job.submit_s == 1793527200.0
    assert summary(read) == []


@pytest.mark.parametrize(
    ("usage", "tasks", "peak"),
    [
        ("cpu=00:10:00,gres/gpumem=3221225472,gres/gpuutil=90,mem=4G", "1", 3 * GIB),
        ("cpu=00:10:00,gres/gpumem=3072M,mem=60G", "1", 3 * GIB),
        ("gres/gpumem=1.5G", "8", 6 * GIB),  # four tasks on each of its two GPUs
        ("gres/gpumem=0,mem=60G", "1", None),  # nothing reads it, as of slices
        ("cpu=00:10:00,mem=60G", "1", None),
        ("gres/gpumem=-5,mem=60G", "1", None),
        ("gres/gpumem=99999999999999999999,mem=60G", "1", None),
        ("gres/gpumem=900000P,mem=60G", "1", None),
        ("gres/gpumem=", "1", None),
        ("", "1", None),
    ],
)
def test_gpu_memory_is_read_beside_the_hosts_and_never_taken_from_it(
    usage: str, tasks: str, peak: int | None
) -> None:
    step = row("7.0", user="", peak="60G", tasks=tasks, name="batch", usage=usage)
    job = sacct(row(), step).jobs["7"]
    assert job.gpu_peak_bytes == peak
    assert job.peak_bytes == 60 * GIB * int(tasks)


def test_nodes_processor_time_disk_and_energy_are_read() -> None:
    typed = row(
        hosts="gpu[001-002]", cpu_time="1-01:00:00", energy="42", allocated="gres/gpu:a100=2"
    )
    steps = [row(f"7.{n}", user="", disk=("fs/disk=70,cpu=1", "fs/disk=2K")) for n in (0, 1)]
    job = sacct(typed, *steps).jobs["7"]
    assert (job.node_list, job.gpu_type, job.energy_j) == ("gpu[001-002]", "a100", 42)
    assert (job.cpu_time_s, job.disk_read_bytes, job.disk_written_bytes) == (90_000.0, 140, 4096)
    job = sacct(row(hosts="None assigned", cpu_time="INVALID", energy="")).jobs["7"]
    assert (job.node_list, job.cpu_time_s, job.energy_j, job.disk_read_bytes) == (
        "",
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("steps", "mean", "peak"),
    [
        ([("80", "60", "1", "600")], 0.3, 0.4),  # one task that used both of its GPUs, or one
        ([("80", "60", "2", "600")], 0.6, 0.8),  # a task on each of the two
        ([("90", "80", "2", "300"), ("20", "10", "2", "300")], 0.45, 0.9),  # one after the other
        ([("0", "0", "1", "600"), ("80", "60", "2", "600")], 0.6, 0.8),  # batch beside the step
        ([("180", "150", "1", "600")], 0.75, 0.9),  # a task's use is the sum over its GPUs
    ],
)
def test_gpu_utilisation_is_a_share_of_all_the_gpus_of_the_job_for_all_its_time(
    steps: list[tuple[str, str, str, str]], mean: float, peak: float
) -> None:
    lines = [
        row(f"7.{number}", user="", tasks=tasks, elapsed=seconds,
            usage=f"cpu=1,gres/gpuutil={most}", mean=f"gres/gpuutil={ave},cpu=1")
        for number, (most, ave, tasks, seconds) in enumerate(steps)
    ]  # fmt: skip
    job = sacct(row(), *lines).jobs["7"]
    assert (job.gpu_utilisation, job.gpu_utilisation_peak) == (pytest.approx(mean), peak)


@pytest.mark.parametrize(
    ("most", "mean"), [("-5", "-5"), ("300", "50"), ("99999999999999999", "7"), ("50", "100000")]
)
def test_a_utilisation_that_cannot_be_is_counted_and_not_used(most: str, mean: str) -> None:
    step = row("7.0", user="", usage=f"gres/gpuutil={most}", mean=f"gres/gpuutil={mean}")
    read = sacct(row(), step, row("8"))
    job = read.jobs["7"]
    assert None in (job.gpu_utilisation, job.gpu_utilisation_peak) or most.startswith("9" * 16)
    assert job.gpu_utilisation is None or job.gpu_utilisation <= 1
    assert any("below 0 or above 100 %" in line for line in summary(read)) or len(most) > 15


def test_older_files_without_the_columns_of_use_are_read() -> None:
    old = HEADER.replace("|TRESUsageInAve|TRESUsageInTot|TRESUsageOutTot|NodeList|TotalCPU"
                         "|ConsumedEnergyRaw|AdminComment", "")  # fmt: skip
    parts = row().split("|")
    job = sacct("|".join((*parts[:17], parts[-1])), header=old).jobs["7"]
    assert (job.name, job.node_list, job.cpu_time_s, job.gpu_utilisation) == (
        "align.sh", "", None, None,
    )  # fmt: skip


def test_a_node_held_several_of_the_largest_task() -> None:
    read = sacct(row(nodes="2"), step("7.0", "2G", tasks="8", nodes="2"))
    assert read.jobs["7"].peak_bytes == 8 * GIB
    assert read.jobs["7"].request_bytes == 32 * GIB


def test_columns_come_in_any_order_and_older_versions_have_other_ones() -> None:
    header = "State|End|Start|JobID|User|Elapsed|Timelimit|NCPUS|ReqMem"
    line = "TIMEOUT|2026-11-01T12:00:00|2026-11-01T10:00:00|9_3|bob|02:00:00|02:00:00|8|2Gc"
    job = sacct(line, header=header).jobs["9_3"]
    assert (job.state, job.elapsed_s, job.time_limit_s) == ("timeout", 7200.0, 7200.0)
    assert (job.request_bytes, job.peak_bytes, job.peak_source) == (16 * GIB, None, "")


def test_the_same_job_twice_is_once_and_the_last_run_of_a_requeued_one_counts() -> None:
    later = row(start="2026-11-01T11:00:00", end="2026-11-01T11:30:00", elapsed="1800")
    for lines in ((row(), later), (later, row())):
        read = sacct(*lines)
        assert len(read.jobs) == 1
        assert read.jobs["7"].elapsed_s == 1800.0
        assert read.repeated == 1
    assert "last run counts" in summary(read)[0]


def test_a_run_that_was_preempted_is_none_and_what_overlaps_is_read() -> None:
    cut = row(state="PREEMPTED", end="2026-11-01T10:05:10", elapsed="300")
    assert sacct(cut).jobs["7"].state == "cancelled"
    again = row(start="2026-11-01T10:04:00", end="2026-11-01T10:14:00")
    read = sacct(cut, again, row("8"), row("9"))
    assert (read.jobs["7"].state, read.jobs["7"].elapsed_s) == ("completed", 600.0)
    assert sorted(read.jobs) == ["7", "8", "9"]


def test_components_of_het_jobs_and_tasks_of_arrays_are_jobs() -> None:
    read = sacct(row("12+0"), row("12+1"), step("12+1.0", "5G"), row("13_4"), row("14_[5-9]"))
    assert set(read.jobs) == {"12+0", "12+1", "13_4"}
    assert read.jobs["12+1"].peak_bytes == 5 * GIB
    assert read.not_ended == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "PENDING", "start": "Unknown", "end": "Unknown"},
        {"state": "RUNNING", "end": "Unknown"},
        {"state": "CANCELLED by 1000", "start": "None"},
        {"state": "REQUEUED"},
        {"state": "SUSPENDED", "end": "Unknown"},
    ],
)
def test_what_has_not_run_or_not_ended_is_left_out(changes: dict[str, str]) -> None:
    read = sacct(row(**changes))  # type: ignore[arg-type]
    assert (read.jobs, read.not_ended, read.broken) == ({}, 1, 0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (row(end="2026-11-01T09:00:00"), "ends before it starts"),
        (row(submit="2026-11-02T10:00:00"), "starts before it was submitted"),
        (row(elapsed="-600"), "negative run time"),
        (row(elapsed="99999"), "ran longer than"),
        (row(elapsed="ten"), "not a number"),
        (row(elapsed="--600"), "not a number"),
        (row(nodes="4" * 12), "more nodes or cores"),
        (row(start="2026-13-45T10:00:00"), "is no time"),
        (row(end="9999-01-01T00:00:00", elapsed=""), "outside 1970 to 2100"),
        (row(state="SINGING"), "not known"),
        (row("seven"), "not a job's"),
        ("7|alice|half a line", "3 fields where the header has 25"),
    ],
)
def test_broken_lines_are_counted_and_shown_and_the_rest_is_read(line: str, why: str) -> None:
    read = sacct(row("1"), line, row("2"))
    assert set(read.jobs) == {"1", "2"}
    assert read.broken == 1
    assert why in read.examples[0]
    assert "line 3" in read.examples[0]


def test_many_broken_lines_show_a_few() -> None:
    read = sacct(*(["rubbish"] * 40))
    assert read.broken == 40
    assert summary(read)[-1] == "  and 35 more"


def test_a_name_may_hold_a_bar_an_odd_character_or_latin_1() -> None:
    bar = sacct(row(name="a|b|c"))
    assert bar.jobs["7"].name == "a|b|c"
    latin = text_of(row(name="M\u00fcller\x00\x07").encode("latin-1"))
    assert sacct(latin).jobs["7"].name == "M\u00fcller"


def test_lines_that_submitted_jobs_tell_their_arguments() -> None:
    def given(line: str, name: str = "align.sh") -> tuple[str, str]:
        read = sacct(f"{row(name=name)}|{line}", header=f"{HEADER}|SubmitLine")
        return read.jobs["7"].arguments, read.jobs["7"].similar

    def digests(what: JobDescription) -> tuple[str, str]:
        return what.arguments, what.similar

    exact, similar = given("sbatch -n 4 --mem 64G ../align.sh a_12.fq  -k 5")
    assert (exact, similar) == digests(describe_job("align.sh", ("a_12.fq", "-k", "5")))
    other = given("/usr/bin/sbatch align.sh a_13.fq -k 5")
    assert other[0] != exact
    assert other[1] == similar
    assert given("sbatch align.sh a_12.fq -k 5 : -n 2 other.sh") == (exact, similar)
    assert given("sbatch align.sh") == given("sbatch -J align.sh other.sh 5") == ("", "")
    script = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n./sim 12 | tail\n"
    assert given("sbatch -n1 --wrap=./sim 12", "wrap") != ("", "")
    assert (
        sacct(f"{row(name='wrap')}|sbatch --wrap=./sim 12", header=f"{HEADER}|SubmitLine")
        .jobs["7"]
        .arguments
        == describe_job("wrap", (), script.replace(" | tail", "")).arguments
    )


def test_nobody_can_write_a_line_of_another_users_job(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def sacct_that_prints_what_users_wrote(words: tuple[str, ...], **_: object) -> str:
        asked.extend(words)
        (bar,) = (w.partition("=")[2] for w in words if w.startswith("--delimiter="))
        columns = words[-1].split(",")
        line = row(user="mallory", name="a|b").split("|")[: len(columns) - 5]
        evil = "x\n8|bob|phys|cpu|COMPLETED\n" + row("8", user="bob")
        return f"{bar.join(columns)}\n{bar.join([*line, 'a|b', '7', '0:0', 'rule_x', evil])}\n" + (
            bar.join([*row("9").split("|"), "9", "0:0", "", "sbatch align.sh s1"]) + "\n"
        )

    monkeypatch.setattr(commands, "run", sacct_that_prints_what_users_wrote)
    read = accounting.past_jobs("lab", 0.0)
    assert {one.user for one in read.jobs.values()} == {"mallory", "alice"}
    assert (read.jobs["7"].name, read.broken) == ("a|b", 0)
    assert read.jobs["9"].arguments
    accounting.past_jobs("lab", 0.0)
    bars = [w for w in asked if w.startswith("--delimiter=")]
    assert len(set(bars)) == 2


@pytest.mark.parametrize("text", ["", "\n\n", "JobID|State\n", "no header at all\n"])
def test_without_a_header_the_message_says_how_to_write_one(text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_sacct(text.split("\n"), "lab", source="jobs.txt")
    assert "jobs.txt" in caught.value.message
    assert "header" in caught.value.message


def test_the_columns_that_are_asked_for_can_be_read() -> None:
    assert HEADER.split("|") == list(COLUMNS)


def flux_job(**changes: object) -> dict[str, object]:
    return {
        "id": 42, "userid": 1000, "username": "alice", "state": "INACTIVE", "result": "COMPLETED",
        "t_submit": 100.0, "t_run": 110.0, "t_cleanup": 170.5, "t_inactive": 171.0, "ncores": 8,
        "nnodes": 1, "duration": 600.0, "name": "align.sh", "queue": "batch", "bank": "phys",
    } | changes  # fmt: skip


def test_flux_jobs_that_ran() -> None:
    text = json.dumps(
        {"jobs": [flux_job(), flux_job(id=43, state="RUN"), flux_job(id=44, t_run=0)]}
    )
    read = read_flux(text, "lab", source="flux.json")
    job = read.jobs[job_name(42)]
    assert (job.elapsed_s, job.cores, job.time_limit_s, job.account) == (60.5, 8, 600.0, "phys")
    assert (len(read.jobs), read.not_ended) == (1, 2)
    assert read_flux(json.dumps(flux_job()), "lab", source="x").jobs == {job_name(42): job}


@pytest.mark.parametrize(
    "changes",
    [{"t_cleanup": 50.0}, {"t_run": "soon"}, {"ncores": float("nan")}, {"id": None},
     {"t_submit": 1e12}, {"t_run": 10**400}, {"id": "\udc80"}],
)  # fmt: skip
def test_broken_flux_jobs_are_counted(changes: dict[str, object]) -> None:
    text = json.dumps({"jobs": [flux_job(), flux_job(id=43) | changes, "no job"]})
    read = read_flux(text, "lab", source="flux.json")
    assert (list(read.jobs), read.broken) == ([job_name(42)], 2)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"jobs": 3}', "[" * 100_000])
def test_what_is_no_list_of_flux_jobs_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        read_flux(text, "lab", source="flux.json")


def test_swf_with_a_beginning() -> None:
    read = read_swf(
        [
            "; UnixStartTime: 1000",
            "1 10 5 60 4 -1 2048 4 120 -1 1 3 2 -1 1 -1 -1 -1",
            "2 10 5 -1 4 -1 -1 4 120 -1 5 3 2 -1 1 -1 -1 -1",
            "3 10 5 -60 4 -1 -1 4 120 -1 1 3 2 -1 1 -1 -1 -1",
            "4 10 5 60 -1 -1 -1 -1 120 -1 1 3 2 -1 1 -1 -1 -1",
            "5 10 5 nan 4 -1 -1 4 120 -1 1 3 2 -1 1 -1 -1 -1",
            "6 ten",
            "7 10 5 60 1e300 -1 -1 1e300 120 -1 1 3 2 -1 1 -1 -1 -1",
            "8 10 5 60 4 -1 -1 4 120 -1 1 3e300 2 -1 1 -1 -1 -1",
            "1e300 10 5 60 4 -1 -1 4 120 -1 1 3 2 -1 1 -1 -1 -1",
        ],
        "lab",
    )
    job = read.jobs["1"]
    assert (job.submit_s, job.start_s, job.end_s, job.elapsed_s) == (1010.0, 1015.0, 1075.0, 60.0)
    assert (job.user, job.account, job.peak_bytes) == ("user3", "group2", 4 * 2048 * 1024)
    assert (len(read.jobs), read.not_ended, read.broken) == (1, 1, 7)


RULE = "-" * 80
STORED = f"""\
Batch Script for 7
{RULE}
#!/bin/bash
#SBATCH -n 4
./align $1

Batch Script for 8_2
{RULE}
NONE
"""


def test_scripts_that_accounting_stores_are_read_for_jobs_whose_arguments_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []
    answers = {"stored": STORED, "flags": "AccountingStoreFlags   = job_comment,job_script\n"}

    def slurm(words: tuple[str, ...], **_: object) -> str:
        asked.append(words)
        if words[0] == "scontrol":
            return answers["flags"]
        if "--batch-script" in words:
            if "broken" in answers:
                raise SchedulerError("sacct failed")
            return answers["stored"]
        bar = next(w.partition("=")[2] for w in words if w.startswith("--delimiter="))
        lines = [
            f"{row()}|7|0:0||sbatch align.sh s1", f"{row('8_2', name='a.sh')}|10|0:0||sbatch a.sh",
            f"{row('9', name='renamed')}|9|0:0||sbatch -J renamed align.sh",
            f"{row('6', user='bob')}|6|0:0||sbatch align.sh",
        ]  # fmt: skip
        return "\n".join(
            bar.join(line.split("|")) for line in (words[-1].replace(",", "|"), *lines)
        )

    monkeypatch.setattr(commands, "run", slurm)

    def ask() -> ReadJobs:
        found = accounting.past_jobs("lab", 0.0)
        submitted.add_scripts(found)
        return found

    read = ask()
    assert read.jobs["7"].script == describe_job("", (), "#!/usr/bin/env bash\n./align $1").script
    assert [job for job in read.jobs.values() if job.script] == [read.jobs["7"]]
    questions = [words[-1] for words in asked if "--batch-script" in words]
    assert [set(one.split(",")) for one in questions] == [{"7", "8_2"}, {"6"}]
    answers["broken"] = ""
    assert not ask().jobs["7"].script
    answers["flags"] = "AccountingStoreFlags   = job_comment\n"
    asked.clear()
    assert len(ask().jobs) == 4
    assert not [words for words in asked if "--batch-script" in words]


@pytest.mark.parametrize("more", ["6", "7", "8_2"])
def test_an_answer_that_holds_other_jobs_than_asked_for_is_not_used(
    monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """The script of 8_2 has a line in it that is like sacct's own."""
    evil = {"7": "#!/bin/sh\na\n", "8_2": f"#!/bin/sh\nBatch Script for {more}\n{RULE}\nrm\n",
            "9": "#!/bin/sh\nb\n", "10": "NONE\n"}  # fmt: skip

    def slurm(words: tuple[str, ...], **_: object) -> str:
        return "".join(f"Batch Script for {n}\n{RULE}\n{evil[n]}\n" for n in words[-1].split(","))

    monkeypatch.setattr(commands, "run", slurm)
    found = scripts_of({"alice": ["7", "8_2", "9", "10"]})
    assert {number: text.split()[-1] for number, text in found.items()} == {"7": "a", "9": "b"}
    assert dict(parse_scripts(STORED, ["7", "8_2"]) or {}) == {
        "7": "#!/bin/bash\n#SBATCH -n 4\n./align $1\n"
    }
    for text in (
        "",
        "sacct: error\n",
        f"Batch Script for 7\n{RULE}\n",
        "Batch Script for 7\n--\nx\n",
    ):
        assert parse_scripts(text, ["7"]) == {}
