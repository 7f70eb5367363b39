"""Past jobs in the order in which things happened to them: nothing is known before its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from berth.predictor.learning.history.jobs import EndedJob
from berth.predictor.learning.history.rings import Floats
from berth.predictor.learning.history.run_time import RunTimePredictor


class Event(IntEnum):
    """At one moment in this order."""

    END = 0
    ASKED = 1
    START = 2


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that ran, with its start in Unix seconds."""

    job_id: str
    start_s: float
    ended: EndedJob


def in_order(submit_s: Floats, start_s: Floats, end_s: Floats) -> Iterator[tuple[Event, int]]:
    """Ends, submissions and starts of [jobs] by time: what ended at a moment is known then."""
    jobs = len(submit_s)
    times = np.concatenate([end_s, submit_s, start_s])
    kinds = np.repeat([Event.END, Event.ASKED, Event.START], jobs)
    order = np.lexsort((kinds, times))
    for place in order.tolist():
        yield Event(int(kinds[place])), place % jobs


def learn_from(jobs: Sequence[PastJob], predictor: RunTimePredictor) -> None:
    """Let every job be predicted at its submission and learnt from at its end.

    Intervals and choices are then those that would have held for these jobs.
    """
    times = (
        np.array([job.ended.asked.submit_s for job in jobs]),
        np.array([job.start_s for job in jobs]),
        np.array([job.ended.end_s for job in jobs]),
    )
    for event, place in in_order(*times):
        job = jobs[place]
        if event is Event.END:
            predictor.ended(job.job_id, job.ended)
        elif event is Event.ASKED:
            asked = job.ended.asked
            predictor.predict(asked, asked.submit_s, job_id=job.job_id)
        else:
            predictor.started(job.job_id, job.ended.asked, job.start_s)
