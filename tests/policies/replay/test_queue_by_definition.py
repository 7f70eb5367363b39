"""FCFS and EASY against an implementation that shares no code with the replay: 0 starts differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from public_forms import FORMS, busy_months, differing
from queue_by_definition import Job, starts

CORES = 256


@pytest.mark.parametrize("easy", [False, True])
@pytest.mark.parametrize("form", list(FORMS))
def test_each_job_of_a_public_form_starts_at_the_same_second(
    tmp_path: Path, form: str, easy: bool
) -> None:
    jobs = busy_months(form, 600, CORES)
    file = tmp_path / form
    file.write_text(FORMS[form](jobs))
    assert sum(job.limit_s is None for job in jobs) > 10
    assert sum(job.limit_s is not None and job.run_s > job.limit_s for job in jobs) > 10
    assert differing(file, jobs, CORES, easy=easy) == []


def test_the_definition_by_hand() -> None:
    """Three of four cores are busy until 10 s; the second job needs all, others fill the hole."""
    jobs = [Job(0, 10, 3, 10), Job(1, 10, 4, 10), Job(2, 5, 1, 5), Job(3, 20, 1, 20)]
    assert starts(jobs, 4, easy=True) == [0, 10, 2, 20]
    assert starts(jobs, 4, easy=False) == [0, 10, 20, 20]
