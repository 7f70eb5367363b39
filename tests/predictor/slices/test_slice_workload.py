"""The workload file: every mistake is a sentence with its key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.documents import parse_json, to_json
from berth.pilot.errors import DocumentError
from berth.predictor.families.slices.workload import WORKLOAD_SCHEMA, SliceWorkload


def document(**changes: Any) -> dict[str, Any]:
    return {
        "schema": WORKLOAD_SCHEMA,
        "name": "bert",
        "gpu": "A100-40GB",
        "points": [{"batch": 8, "step_s": 0.1}],
        **changes,
    }


def read(data: Any) -> SliceWorkload:
    return parse_json(json.dumps(data), SliceWorkload, source="workload.json")


def test_a_point_may_say_throughput_instead_of_time() -> None:
    found = read(document(points=[{"batch": 8, "throughput_per_s": 16}]))
    assert found.points[0].seconds == 0.5


def test_the_target_is_the_point_of_its_batch() -> None:
    points = [{"batch": 8, "step_s": 0.1}, {"batch": 16, "step_s": 0.2}]
    assert read(document(points=points, batch=16)).target is not None
    assert read(document(points=points, batch=32)).target is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"points": []}, "points"),
        ({"points": [{"batch": 8}]}, "step_s or throughput_per_s"),
        ({"points": [{"batch": 8, "step_s": 0.1, "throughput_per_s": 3}]}, "either"),
        ({"points": [{"batch": 8, "step_s": 0}]}, "step_s"),
        ({"points": [{"batch": 8, "step_s": -1}]}, "step_s"),
        ({"points": [{"batch": 8, "step_s": "0.1"}]}, "step_s"),
        ({"points": [{"batch": 8, "step_s": 0.1, "sm_utilization": 71}]}, "sm_utilization"),
        ({"points": [{"batch": 8, "step_s": 0.1, "sm_utilisation": 0.7}]}, "not a known key"),
        ({"points": [{"batch": 8, "step_s": 1}, {"batch": 8, "step_s": 2}]}, "same batch"),
        ({"points": [{"batch": 8, "step_s": 1}, {"batch": 9, "step_s": 2}]}, "key batch"),
        ({"processes": 0}, "processes"),
        ({"memory": {}}, "low_bytes"),
        ({"memory": {"low_bytes": 2, "mid_bytes": 1, "high_bytes": 3}}, "mid_bytes"),
        ({"memory": {"reserved_bytes": 2, "high_bytes": 3}}, "either"),
        ({"name": "a name with spaces"}, "name"),
        ({"schema": "berth.slice-workload/2"}, "newer"),
        ({"gpu": 5}, "gpu"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DocumentError, match=words) as raised:
        read(document(**changes))
    assert "workload.json" in raised.value.message


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(DocumentError, match="finite"):
        parse_json(
            '{"schema": "berth.slice-workload/1", "name": "a", "gpu": "A30", '
            '"points": [{"step_s": NaN}]}',
            SliceWorkload,
            source="w",
        )


def test_what_is_written_is_read_again() -> None:
    made = read(document(memory={"reserved_bytes": 5e9}, probes=[{"profile": "1g", "step_s": 1}]))
    assert parse_json(to_json(made), SliceWorkload, source="w") == made


@given(st.floats(1, 1e14))
def test_a_reservation_is_an_upper_bound(reserved: float) -> None:
    need = read(document(memory={"reserved_bytes": reserved})).memory
    assert need is not None
    assert need.interval.low < need.interval.high == reserved
