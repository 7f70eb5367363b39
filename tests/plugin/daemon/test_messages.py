"""Whatever comes in, the parser gives an Ask or a Refusal, and the service a valid line."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples
from views import quiet_service

from berth.plugin.daemon.protocol import (
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    MAX_SCRIPT_BYTES,
    Ask,
    Refusal,
    SubmittedJob,
    parse,
)

SERVICE = quiet_service()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = st.sampled_from(sorted(SubmittedJob.__slots__)) | st.text(max_size=8)
JOBS = st.dictionaries(KEYS, JSON, max_size=12)


def line(**job: Any) -> bytes:
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": job}
    return json.dumps(message).encode()


def refusal(raw: bytes) -> str:
    with pytest.raises(Refusal) as refused:
        parse(raw)
    return str(refused.value)


@settings(max_examples=examples(300))
@given(st.binary(max_size=300))
def test_any_bytes_get_a_valid_keep(raw: bytes) -> None:
    check_reply(SERVICE.handle(raw))


@settings(max_examples=examples(300))
@given(JSON)
def test_any_json_gets_a_valid_keep(value: Any) -> None:
    check_reply(SERVICE.handle(json.dumps(value).encode()))


@settings(max_examples=examples(500))
@given(JOBS, st.sampled_from(["slurm", "flux", "", "pbs", None]))
@pytest.mark.slow
def test_any_job_is_understood_or_refused(job: dict[str, Any], scheduler: str | None) -> None:
    raw = json.dumps({"v": 1, "op": "decide", "scheduler": scheduler, "job": job}).encode()
    with suppress(Refusal):
        assert isinstance(parse(raw), Ask)
    check_reply(SERVICE.handle(raw))


def check_reply(raw: bytes) -> None:
    """A valid keep: this service knows no workload."""
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1
    assert len(raw) <= MAX_REPLY_BYTES
    reply = json.loads(raw)
    assert reply["v"] == 1
    assert reply["action"] == "keep"
    assert "edits" not in reply
    assert len(reply.get("stamp", "").encode()) <= 512
    assert SERVICE.stats.counts["internal-errors"] == 0


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 20_000, "not JSON"),
        (b"1" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b'{"v":true,"op":"ping"}', "version 1"),
        (b'{"v":1.0,"op":"ping"}', "version 1"),
        (b'{"v":2,"op":"ping"}', "version 1"),
        (b'{"v":1,"op":["ping"]}', "op is not"),
        (b'{"v":1,"op":"decide","scheduler":7,"job":{}}', "scheduler is not"),
        (b'{"v":1,"op":"decide","scheduler":"slurm","job":[]}', "job is not"),
        (b'{"v":1,"op":"decide","scheduler":"slurm","job":{"tasks":NaN}}', "NaN is not"),
        (b'{"v":1,"op":"decide","scheduler":"slurm","job":{"tasks":1e999}}', "job.tasks is not"),
        (line(tasks=-1), "job.tasks is not"),
        (line(tasks=1.5), "job.tasks is not"),
        (line(tasks=True), "job.tasks is not"),
        (line(tasks="4"), "job.tasks is not"),
        (line(tasks=2**60), "job.tasks is not"),
        (line(user=7), "job.user is not a string"),
        (line(comment="x" * 5000), "job.comment is longer"),
        (line(script="x" * (MAX_SCRIPT_BYTES + 1)), "job.script is longer"),
        (line(queues=["a", 1]), "job.queues is not"),
        (line(queues={"a": 1}), "job.queues is not"),
        (line(queues=["a"] * 5000), "job.queues is not"),
        (line(kind="cron"), "job.kind is not"),
        (b" " * (MAX_REQUEST_BYTES + 1), "longer than"),
    ],
)
def test_a_refusal_says_what_is_wrong(raw: bytes, says: str) -> None:
    assert says in refusal(raw)


def test_whole_numbers_are_taken_up_to_where_luas_end() -> None:
    assert parse(line(tasks=2**53)).job.tasks == 2**53
    assert "2^53" in refusal(line(tasks=2**53 + 1))
    assert parse(line(tasks=0)).job.tasks == 0
    assert "2^53" in refusal(line(tasks=-1))


def test_lua_numbers_and_empty_tables_are_understood() -> None:
    ask = parse(line(tasks=4.0, queues={}, pinned={}, user=None))
    assert (ask.job.tasks, ask.job.queues, ask.job.pinned, ask.job.user) == (4, (), (), None)


def test_keys_of_a_newer_filter_are_ignored() -> None:
    assert parse(line(wallpaper={"a": [1]}, tasks=2)).job.tasks == 2


def test_a_script_in_another_encoding_is_taken() -> None:
    raw = line(script="echo X").replace(b"X", "é".encode("latin-1"))
    assert parse(raw).job.script == "echo \ufffd"
