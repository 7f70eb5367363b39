"""Which row of a decision's ranking an outcome belongs to."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from stored import PLACED, REQUEST, row

from berth.plugin.daemon.outcomes import place_row
from berth.plugin.store import DecisionRecord

QUEUES = {"cpu": "cpu", "gpu": "gpu", "old": "cpu", "big": "gpu"}
KEPT = replace(PLACED, action="keep", mode="shadow")


def _without(candidate: str, code: str) -> dict[str, str]:
    return {"candidate": candidate, "platform": candidate, "code": code, "excluded": "because"}


SMALL = row("small", 1, 1, 60)
ON_SLICES = replace(
    KEPT,
    chosen="small",
    edits='{"gres": "gpu:1g.5gb:1"}',
    request=json.dumps({**REQUEST, "gpus": 1}),
    ranked=json.dumps([SMALL, _without("large", "other-slice")]),
)


@pytest.mark.parametrize(
    ("decision", "candidate"),
    [
        (replace(ON_SLICES, action="edit"), "small"),
        (ON_SLICES, None),  # advised only: its GPU of any type may have been a large slice
        (replace(ON_SLICES, edits="{}"), "small"),
        (
            replace(
                ON_SLICES,
                edits='{"time_limit_min": 9}',
                ranked=json.dumps([SMALL, _without("large", "other-gres")]),
            ),
            "small",  # it named the type itself
        ),
    ],
)
def test_a_job_on_slices_is_compared_only_where_its_slice_is_known(
    decision: DecisionRecord, candidate: str | None
) -> None:
    found = place_row("mig", decision, {"small": "mig", "large": "mig"})
    assert (found and found["candidate"]) == candidate


SAME = {"platform": "platform-of-cpu"}
UNPREDICTED = {**_without("cpu", "prior-only"), "nodes": 1, "cores": 4, "gpus": 0}


@pytest.mark.parametrize(
    ("decision", "queue", "candidate"),
    [
        (PLACED, "gpu", "gpu"),
        (PLACED, "cpu", None),  # moved since, in the shape of the GPU candidate
        (KEPT, "cpu", "cpu"),
        (KEPT, "gpu", None),  # it asked no GPU: it ran there without
        (replace(KEPT, request=json.dumps({**REQUEST, "cpus_per_task": 2})), "cpu", None),
        (replace(KEPT, request=json.dumps({**REQUEST, "gpus": 1})), "gpu", "gpu"),
        (replace(KEPT, ranked=json.dumps([row("cpu", 4, 0, 1), row("old", 4, 0, 2)])), "cpu", None),
        (
            replace(KEPT, ranked=json.dumps([row("cpu", 4, 0, 1), row("old", 4, 0, 2) | SAME])),
            "cpu",
            "cpu",  # or old, which is the same hardware
        ),
        (
            replace(
                KEPT, chosen="old", ranked=json.dumps([row("old", 4, 0, 1), row("cpu", 4, 0, 2)])
            ),
            "cpu",
            None,  # advised only: nobody knows which of the two it ran on
        ),
        (
            replace(
                KEPT,
                chosen="old",
                edits="{}",  # it asked for that very place
                ranked=json.dumps([row("old", 4, 0, 1), row("cpu", 4, 0, 2)]),
            ),
            "cpu",
            "old",
        ),
        (
            replace(
                KEPT,
                chosen="old",
                code="pinned-shape",
                edits="{}",
                ranked=json.dumps([row("old", 4, 0, 1), row("cpu", 4, 0, 2)]),
            ),
            "cpu",
            None,
        ),
        (replace(PLACED, ranked="[]"), "gpu", None),  # from a killed daemon's journal
        (replace(PLACED, ranked='[{"candidate": "gpu", "excluded": "full"}]'), "gpu", None),
        (replace(PLACED, ranked="garbage"), "gpu", None),
        (replace(KEPT, ranked=json.dumps([UNPREDICTED])), "cpu", "cpu"),
        (replace(PLACED, chosen="cpu", ranked=json.dumps([UNPREDICTED])), "cpu", "cpu"),
        (replace(PLACED, request="{}"), "gpu", "gpu"),
        # What is predicted for its largest task says nothing of the others.
        (replace(PLACED, request='{"task_sizes": [[1, 9], [2, 1]]}'), "gpu", None),
        (replace(KEPT, request="{}"), "gpu", None),
    ],
)  # fmt: skip
def test_a_row_counts_only_for_the_place_and_shape_it_was_made_for(
    decision: DecisionRecord, queue: str, candidate: str | None
) -> None:
    found = place_row(queue, decision, QUEUES)
    assert (found and found["candidate"]) == candidate
