"""What monitoring recorded of jobs, as it comes, and every way in which it is broken."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import DocumentError
from berth.pilot.usage.record import Usage
from berth.plugin.cli.command_line import berth
from berth.plugin.history.disagreements import sentences
from berth.plugin.history.files import read_usages
from berth.plugin.history.usage_files import jobstats
from berth.plugin.history.usage_files.metrics_csv import read_metrics
from berth.plugin.scheduler.past_jobs import Unreadable
from berth.plugin.slurm.sacct import read_sacct

GIB = 2**30
NODE = {
    "cpus": 16, "total_time": 9000.5, "used_memory": 3 * GIB, "total_memory": 64 * GIB,
    "gpu_utilization": {"0": 12.0, "1": 20}, "gpu_used_memory": {"0": 2 * GIB, "1": 3 * GIB},
    "gpu_total_memory": {"0": 40 * GIB, "1": 40 * GIB},
}  # fmt: skip


def packed(summary: object) -> str:
    text = gzip.compress(json.dumps(summary).encode())
    return f"JS1:{base64.b64encode(text).decode()}"


def of_summary(comment: str) -> Usage | None:
    return jobstats.usage_in(comment, "lab", "7", 0.0)


def test_a_summary_of_jobstats_over_two_nodes() -> None:
    second = NODE | {"used_memory": 5 * GIB, "gpu_utilization": {"0": 40}, "gpu_used_memory": {}}
    usage = of_summary(packed({"nodes": {"g1": NODE, "g2": second}, "total_time": 600}))
    assert usage is not None
    assert (usage.peak_bytes, usage.cpu_time_s) == (5 * GIB, 18_001.0)
    assert (usage.gpus, usage.gpu_peak_bytes) == (3, 3 * GIB)
    assert usage.gpu_utilisation == pytest.approx(0.24)
    assert usage.gpu_memory_utilisation is None
    assert "memory" in usage.lacks
    of_cpus = of_summary(packed({"nodes": {"c1": {"total_time": 5, "used_memory": GIB}}}))
    assert of_cpus is not None
    assert (of_cpus.gpus, of_cpus.gpu_peak_bytes, of_cpus.gpu_utilisation) == (None, None, None)


def test_a_summary_of_some_of_a_jobs_nodes_tells_nothing_of_the_job() -> None:
    one = packed({"nodes": {"g1": NODE}})
    assert jobstats.usage_in(one, "lab", "7", 0.0, job_nodes=1) is not None
    assert jobstats.usage_in(one, "lab", "7", 0.0, job_nodes=2) is None


@pytest.mark.parametrize("comment", ["JS1:Short", "JS1:None"])
def test_a_job_of_which_nothing_was_recorded(comment: str) -> None:
    assert of_summary(comment) is None


BOMB = f"JS1:{base64.b64encode(gzip.compress(bytes(2**30 // 4), 9)).decode()}"
"""A quarter of a GiB of zeros: what is unpacked is bounded before that."""


@pytest.mark.parametrize(
    "comment",
    [
        "JS1:not base64!", "JS1:AAAA", packed([]), packed({}), packed({"nodes": []}),
        packed({"nodes": {"g1": 3}}), packed({"nodes": NODE})[:60], BOMB,
        f"JS1:{base64.b64encode(zlib.compress(b'{}')).decode()}", "JS1:" + "A" * 2_000_000,
        f"JS1:{base64.b64encode(gzip.compress(b'[' * 500_000)).decode()}",
    ],
    ids=range(11),
)  # fmt: skip
def test_a_broken_summary_is_refused(comment: str) -> None:
    with pytest.raises(Unreadable):
        of_summary(comment)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_summary_or_are_refused(data: bytes) -> None:
    for text in (data, gzip.compress(data)):
        try:
            of_summary(f"JS1:{base64.b64encode(text).decode()}")
        except Unreadable as error:
            assert "jobstats" in str(error)


@pytest.mark.parametrize("share", [-3.0, 250.0, float("inf")])
def test_a_utilisation_that_cannot_be_is_left_out_and_counted(tmp_path: Path, share: float) -> None:
    file = tmp_path / "jobstats.csv"
    comment = packed({"nodes": {"g1": NODE | {"gpu_utilization": {"0": 30, "1": share}}}})
    file.write_text(f"jobid,admin_comment\n7,{comment}\n8,JS1:Short\n9,JS1:x\n")
    read = read_usages(file, "lab", received_s=0.0)
    (usage,) = read.usages
    assert (usage.gpu_utilisation, usage.gpu_peak_bytes) == (None, 3 * GIB)
    assert [*read.left_out.values()] == [1]
    assert (read.nothing_recorded, read.broken) == (1, 1)


def test_an_export_of_several_clusters_needs_the_name_of_one(tmp_path: Path) -> None:
    file = tmp_path / "jobstats.tsv"
    comment = packed({"nodes": {"g1": NODE}})
    file.write_text(f"cluster\tjobid\tadmin_comment\nadroit\t7\t{comment}\ndella\t8\t{comment}\n")
    with pytest.raises(DocumentError) as caught:
        read_usages(file, "lab", received_s=0.0)
    assert "adroit, della" in caught.value.message
    read = read_usages(file, "lab", received_s=0.0, of_cluster="della")
    assert [(one.cluster, one.job_id) for one in read.usages] == [("lab", "8")]


def test_a_csv_of_metrics() -> None:
    read = read_metrics(
        [
            "\ufeffvalue, metric, job",
            "3221225472,gpu_peak_bytes,7",
            "2,gpu_peak_bytes,7",
            "12,gpu_utilisation_percent,7",
            "0.05,gpu_memory_utilisation,7",
            "9,ipc,7",
            "1e30,peak_bytes,8",
            "-4,cpu_time_s,8",
            "x,cpu_time_s,9",
            "1,2,3,4",
            "5,peak_bytes,",
        ],
        "lab",
        source="metrics.csv",
        received_s=1.0,
    )
    seven, eight = read.usages
    assert (seven.gpu_peak_bytes, seven.gpu_utilisation, seven.gpu_memory_utilisation) == (
        3 * GIB, 0.12, 0.05,
    )  # fmt: skip
    assert (eight.peak_bytes, eight.cpu_time_s) == (None, None)
    assert (sum(read.left_out.values()), read.broken) == (3, 3)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "{}"])
def test_another_file_is_refused_with_the_forms_that_can_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(DocumentError) as caught:
        read_usages(tmp_path / "file", "lab", received_s=0.0)
    assert "job,metric,value" in (caught.value.hint or "")


HEADER = "JobID|User|Partition|State|Start|End|AllocTRES|TRESUsageInMax|AdminComment|JobName"


def accounting(*comments: str) -> str:
    lines = [HEADER]
    for number, comment in enumerate(comments, 1):
        lines += [
            f"{number}|alice|gpu|COMPLETED|1793527200|1793527800|gres/gpu=2||{comment}|train.sh",
            f"{number}.batch|||COMPLETED|1793527200|1793527800|gres/gpu=2|gres/gpumem=9G||batch",
        ]
    return "\n".join(lines) + "\n"


def test_summaries_in_the_accounting_never_stop_an_import() -> None:
    comments = (packed({"nodes": {"g1": NODE}}), "JS1:Short", "JS1:None", BOMB, "JS1:?", "berth/1")
    read = read_sacct(accounting(*comments).split("\n"), "lab", source="jobs.txt", utc=True)
    assert len(read.jobs) == 6
    assert [one.job_id for one in read.usages] == ["1"]
    assert [*read.changed.values()] == [2]


def run(*words: str) -> str:
    done = CliRunner().invoke(berth, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_of_two_sources_the_better_counts_and_the_other_is_shown(tmp_path: Path) -> None:
    store = ("--store", f"{tmp_path}/store.db")
    file = tmp_path / "jobs.txt"
    file.write_text(accounting(packed({"nodes": {"g1": NODE}})))
    said = run("jobs", "history", "import", str(file), "--utc", *store)
    assert "1 job: jobstats and sacct disagree on GPU memory; jobstats counts" in said
    assert "(job 1: 3.0 GiB, sacct 9.0 GiB)" in said
    shown = run("jobs", "usage", "show", "1", *store)
    assert "gpu_peak_bytes: 3.0 GiB (jobstats; sacct: 9.0 GiB)" in shown
    assert "jobstats lacks: utilisation of GPU memory" in shown
    metrics = tmp_path / "metrics.csv"
    metrics.write_text("job,metric,value\n1,gpu_memory_utilisation_percent,4\n77,peak_bytes,5\n")
    said = run("jobs", "usage", "import", str(metrics), *store)
    assert "2 jobs of which something is recorded" in said
    assert "1 of them are not among the past jobs" in said
    assert "gpu_memory_utilisation: 4 % (csv)" in run("jobs", "usage", "show", "1", *store)
    done = CliRunner().invoke(berth, ["jobs", "usage", "show", "99", *store])
    assert "nothing is recorded of job 99" in getattr(done.exception, "message", done.output)


def test_small_differences_are_no_disagreement() -> None:
    def one(source: str, peak: int, share: float) -> Usage:
        return Usage("lab", "7", source, gpu_peak_bytes=peak, gpu_utilisation=share)

    assert sentences({"7": [one("csv", 100, 0.02), one("jobstats", 110, 0.05)]}) == []
    (said,) = sentences({"7": [one("csv", 100, 0.2), one("jobstats", 110, 0.5)]})
    assert "jobstats counts (job 7: 50 %, csv 20 %)" in said


ARRAY = (
    "JobID|JobIDRaw|User|State|Start|End\n"
    "100_3|103|alice|COMPLETED|2026-11-01T10:00:00|2026-11-01T11:00:00\n"
    "100_4|100|alice|COMPLETED|2026-11-01T10:00:00|2026-11-01T11:00:00\n"
)
OF_TASKS = f"jobid,admin_comment\n103,{packed({'nodes': {'g1': NODE}})}\n"


@pytest.mark.parametrize("accounting_first", [True, False])
def test_a_number_of_slurms_own_is_the_task_of_the_array(
    tmp_path: Path, accounting_first: bool
) -> None:
    """Monitoring knows tasks by JobIDRaw, whichever is imported first."""
    store = ("--store", f"{tmp_path}/store.db")
    (tmp_path / "jobs.txt").write_text(ARRAY)
    (tmp_path / "jobstats.csv").write_text(OF_TASKS)
    (tmp_path / "metrics.csv").write_text("job,metric,value\n100,peak_bytes,5\n")
    imports = [
        ("jobs", "history", "import", str(tmp_path / "jobs.txt"), "--utc"),
        ("jobs", "usage", "import", str(tmp_path / "jobstats.csv")),
        ("jobs", "usage", "import", str(tmp_path / "metrics.csv")),
    ]
    said = [run(*words, *store) for words in (imports if accounting_first else imports[::-1])]
    assert ("not among the past jobs" in "".join(said)) is not accounting_first
    assert "gpu_peak_bytes: 3.0 GiB (jobstats)" in run("jobs", "usage", "show", "100_3", *store)
    assert "peak_bytes: 5 B (csv)" in run("jobs", "usage", "show", "100_4", *store)
