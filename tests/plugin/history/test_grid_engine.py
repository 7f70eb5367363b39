"""Reports of ``qacct -j``: what a job asked for and used, and reports that are broken."""

from __future__ import annotations

import pytest
from foreign_samples import QACCT

from berth.pilot.run import Run
from berth.plugin.history.grid_engine import read_qacct


def job(text: str) -> Run:
    read = read_qacct(text.splitlines(), "lab", utc=True)
    assert not read.broken, read.examples
    (run,) = read.jobs.values()
    return run


def test_a_report_is_a_job() -> None:
    run = job(QACCT)
    assert (run.job_id, run.user, run.account, run.name) == ("4711_3", "ann", "phys", "relax")
    assert (run.partition, run.node_list, run.nodes, run.cores) == ("all.q", "n1", 1, 4)
    assert (run.submit_s, run.start_s, run.end_s) == (1791194340.0, 1791194400.0, 1791198000.0)
    assert (run.elapsed_s, run.time_limit_s, run.cpu_time_s) == (3600.0, 7200.0, 13000.5)
    assert (run.peak_bytes, run.peak_source, run.state) == (3 * 2**29, "polled", "completed")


def test_times_of_univa_and_plain_numbers_are_read_the_same() -> None:
    univa = QACCT.replace("Mon Oct  5 10:00:00 2026", "10/05/2026 10:00:00.123")
    assert job(univa.replace("00s", "00")) == job(QACCT)


@pytest.mark.parametrize(
    ("failed", "exit_status", "state"),
    [("37 : qmaster enforced h_rt limit", "137", "timeout"), ("0", "1", "failed"),
     ("100 : assumedly after job", "137", "failed")],
)  # fmt: skip
def test_how_a_job_ended(failed: str, exit_status: str, state: str) -> None:
    text = QACCT.replace("failed       0", f"failed       {failed}")
    assert job(text.replace("exit_status  0", f"exit_status  {exit_status}")).state == state


def test_a_parallel_job_may_be_on_other_nodes_and_its_parts_are_in_its_own_report() -> None:
    parallel = QACCT.replace("granted_pe   NONE", "granted_pe   mpi")
    run = job(parallel + parallel + "pe_taskid    1.n2\n")
    assert (run.nodes, run.node_list, run.peak_bytes) == (None, "", None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [("jobnumber    4711", "jobnumber    x", "no jobnumber"),
     ("Mon Oct  5 11:00:00 2026", "lun. 5 oct. 2026", "end_time is no time"),
     ("slots        4", "slots        0", "no number of slots"),
     ("11:00:00 2026", "09:00:00 2026", "ends before it starts")],
)  # fmt: skip
def test_a_broken_report_is_counted_and_named(old: str, new: str, why: str) -> None:
    read = read_qacct(QACCT.replace(old, new).splitlines(), "lab", utc=True)
    assert read.broken == 1
    assert why in read.examples[0]


def test_a_job_that_never_started_is_left_out() -> None:
    text = QACCT.replace("start_time   Mon Oct  5 10:00:00 2026", "start_time   -/-")
    assert read_qacct(text.splitlines(), "lab").not_ended == 1
