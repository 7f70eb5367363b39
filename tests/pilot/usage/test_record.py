"""What is known of a job comes from the best source of each value, and from nobody else's word."""

from __future__ import annotations

from berth.pilot.usage.record import JOB_END, Usage, of_job


def usage(source: str = JOB_END, **values: object) -> Usage:
    return Usage("lab", "7", source, **values)  # type: ignore[arg-type]


def test_nodes_are_added_up_and_steps_of_a_node_are_not() -> None:
    job = of_job(
        [
            usage(node="n1", step="0", cpu_time_s=5.0, peak_bytes=10, gpu_utilisation=0.2),
            usage(node="n1", step="batch", cpu_time_s=8.0, peak_bytes=10, gpu_utilisation=0.4),
            usage(node="n2", step="0", cpu_time_s=2.0, peak_bytes=30, gpu_utilisation=0.8),
        ],
        "alice",
    )
    assert job is not None
    assert (job.cpu_time_s, job.peak_bytes, job.node) == (10.0, 30, "")
    assert job.gpu_utilisation == 0.6000000000000001


def test_each_value_is_of_the_best_source_that_has_it() -> None:
    job = of_job(
        [
            usage("sacct", peak_bytes=1, gpu_utilisation=0.9, cpu_time_s=3.0),
            usage("jobstats", gpu_utilisation=0.5),
            usage(peak_bytes=2),
        ],
        "alice",
    )
    assert job is not None
    assert (job.peak_bytes, job.gpu_utilisation, job.cpu_time_s) == (2, 0.5, 3.0)
    assert job.source == "job-end+jobstats+sacct"


def test_a_user_is_believed_on_own_jobs_only() -> None:
    lie = usage(peak_bytes=1, reporter="mallory")
    assert of_job([lie], "alice") is None
    job = of_job([lie], "mallory")
    assert job is not None
    assert job.peak_bytes == 1
