"""What was answered since the recorder last wrote it down, so that a killed daemon explains it.

The recorder is some tenths of a second behind the answers. So each answer with a decision is put,
just as it came and went, in a file beside the spool before it is sent: one write into the page
cache, which outlives the process (not the machine). The file is gone as soon as the store has the
decisions; the next daemon brings in what it finds there.

A batch script and its arguments are left out: users write secrets there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from berth.plugin.daemon import requests
from berth.plugin.daemon.messages import Refusal, parse
from berth.plugin.daemon.replies import parse_stamp
from berth.plugin.daemon.written import clean, request_json
from berth.plugin.store.records import DecisionRecord

_SCRIPT = b'"script":"'
_ARGUMENTS = re.compile(rb'"arguments":\[(?:[\s,]*"[^"\\]*(?:\\.[^"\\]*)*")*\s*\]', re.DOTALL)
"""Exact on JSON: within a string a quote has a backslash before it, so neither begins in one."""
_MOST_QUOTES = 100
"""A script with more is cut out by way of a parser: slower than a look for its end, but bounded."""
_BACKSLASH = ord("\\")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Journal:
    """``write`` is for the answering thread, everything else for the recorder's."""

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self._number = 0
        self._written = 0
        self.failed = 0
        """Answers that could not be written; they went out all the same."""
        self._path: Path | None = None
        self._handle = -1
        self._before = -1
        self._open_next()

    def write(self, time_s: float, mode: str, request: bytes, reply: bytes) -> None:
        """Keep one answer. Never raises."""
        request = without_secrets(request)
        entry = b'{"t":%.3f,"m":"%s","q":%s,"a":%s}\n' % (
            time_s,
            mode.encode(),
            request.strip(),
            reply.strip(),
        )
        try:
            os.write(self._handle, entry)
            self._written += 1
        except OSError:
            self.failed += 1

    def rotate(self) -> Path | None:
        """Begin another file; the one so far, to be removed once its decisions are stored.

        A decision must be in the recorder's queue before it is written here.
        """
        if not self._written:
            return None
        path = self._path
        if self._before >= 0:
            os.close(self._before)
        self._before = self._handle  # the answering thread may be writing to it just now
        self._open_next()
        self._written = 0
        return path

    def close(self, *, remove: bool) -> None:
        """Close the files; ``remove`` the present one where all in it is stored."""
        for handle in (self._before, self._handle):
            if handle >= 0:
                os.close(handle)
        self._before = self._handle = -1
        if remove and self._path is not None:
            self._path.unlink(missing_ok=True)

    def left_behind(self) -> list[Path]:
        """Files of daemons that are no more."""
        found = []
        for path in sorted(self._prefix.parent.glob(f"{self._prefix.name}.*")):
            with suppress(OSError), path.open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(path)
        return found

    def _open_next(self) -> None:
        self._number += 1
        self._path = self._prefix.with_name(f"{self._prefix.name}.{os.getpid()}-{self._number}")
        try:
            handle = os.open(self._path, _FLAGS, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle, self._path = -1, None
        self._handle = handle


def bring_in(path: Path, store: Callable[[Sequence[DecisionRecord]], None]) -> int:
    """Hand a file's decisions to ``store``, then remove it; gives their number.

    What ``store`` raises comes out, and the file stays. One that is stored already stays as it is.
    """
    records = list(_records(path))
    store(records)
    path.unlink(missing_ok=True)
    return len(records)


def _records(path: Path) -> Iterator[DecisionRecord]:
    """As much of each decision as the question and the answer tell: not the alternatives."""
    host = socket.gethostname()
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line.decode("utf-8", "replace"))
            ask = parse(json.dumps(entry["q"]).encode())
            reply = entry["a"]
            stamp = parse_stamp(reply["stamp"]) or {}
            name = str(reply["decision"])
            time_s = float(entry["t"])
            edits = json.dumps(reply.get("edits") or {}, separators=(",", ":"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, Refusal):
            continue  # killed in mid-write: that answer was not sent
        request = requests.request(ask.job, requests.choice(ask.job), auto_queue=None)
        yield DecisionRecord(
            id=name,
            time_s=time_s,
            host=host,
            scheduler=ask.scheduler,
            user=clean(request.user, 128),
            account=clean(request.account, 128) if request.account else None,
            queue=clean(request.queue, 255) if request.queue else None,
            profile=stamp.get("profile"),
            mode=str(entry["m"]),
            action=str(reply["action"]),
            code=str(reply.get("code", "")),
            reason=clean(str(reply.get("message") or reply.get("code", "")), 4_000),
            chosen=stamp.get("to"),
            bundle=stamp.get("bundle"),
            policy=None,
            inputs_digest="",
            latency_us=0,
            request=request_json(request),
            edits=edits,
        )


def without_secrets(request: bytes) -> bytes:
    """The request without its script and the script's arguments. Runs in the answering thread."""
    cut = request
    found = _ARGUMENTS.match(cut, max(0, cut.find(b'"arguments":["')))
    if found is not None:
        cut = b"".join((cut[: found.start()], b'"arguments":[]', cut[found.end() :]))
    begin = cut.find(_SCRIPT)
    if begin >= 0:
        end = _end_of_text(cut, begin + len(_SCRIPT))
        if end is None:
            return _parsed_without(request)
        cut = b"".join((cut[:begin], b'"script":"', cut[end:]))
    if b'"script"' in cut.replace(b'"script":""', b"", 1) or _spaced(cut):
        return _parsed_without(request)
    return cut


def _end_of_text(line: bytes, begin: int) -> int | None:
    """Where the quote is that ends the JSON text; None: not found after some quotes."""
    at = begin
    for _ in range(_MOST_QUOTES):
        at = line.find(b'"', at)
        if at < 0:
            return None
        before = at
        while line[before - 1] == _BACKSLASH and before > begin:
            before -= 1
        if (at - before) % 2 == 0:
            return at
        at += 1
    return None


def _spaced(line: bytes) -> bool:
    """Arguments that were not cut: of a filter that writes JSON with blanks, or twice."""
    at = line.find(b'"arguments"')
    return at >= 0 and not line.startswith((b'"arguments":[]', b'"arguments":{}'), at)


def _parsed_without(request: bytes) -> bytes:
    try:
        message = json.loads(request.decode("utf-8", "replace"))
        for secret in ("script", "arguments"):
            message["job"].pop(secret, None)
        return json.dumps(message).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return b"null"
