"""The examples of docs/protocol.md, sent to a real daemon."""

from __future__ import annotations

import json
import re
from pathlib import Path

from berth_daemon import Harbour, forecast, raw
from made_forecasts import put

from berth.plugin.daemon import protocol
from berth.plugin.daemon.stats import Streak

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text()
EXAMPLES = re.findall(r"```json request\n(.*?)\n```\n```json reply\n(.*?)\n```", PAGE, re.DOTALL)
ALWAYS_NEW = ("stamp", "message", "decision", "version")


def test_every_example_of_the_page_is_answered_as_written(site: Harbour) -> None:
    put(site.store(), forecast("stream"))
    daemon = site.start()
    assert len(EXAMPLES) >= 8
    for request, expected in EXAMPLES:
        reply = json.loads(raw(daemon.socket, request.encode() + b"\n"))
        shown = {key: value for key, value in reply.items() if key not in ALWAYS_NEW}
        assert shown == json.loads(expected), request


def test_the_page_names_every_key_of_a_job_and_no_other() -> None:
    of_job, _, of_breaker = (
        PAGE.partition("Keys of `job`:")[2].partition("## Reply")[0].partition("key of `breaker`")
    )
    assert _keys(of_job) == set(protocol.SubmittedJob.__slots__)
    assert _keys(of_breaker) == set(Streak._fields)


def _keys(table: str) -> set[str]:
    return {
        key
        for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
        for key in re.findall(r"`(\w+)`", row)
    }


def test_the_page_names_the_limits_that_hold() -> None:
    for number in (
        protocol.MAX_REQUEST_BYTES,
        protocol.MAX_REPLY_BYTES,
        protocol.MAX_SCRIPT_BYTES,
        protocol.MAX_TEXT,
    ):
        assert f"{number:,}" in PAGE
