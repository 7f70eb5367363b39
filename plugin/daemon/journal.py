"""What was answered since the recorder last wrote it down, so that a killed daemon explains it.

The recorder is some tenths of a second behind the answers. So each answer with a decision is put,
just as it came and went, in a file beside the spool before it is sent: one write into the page
cache, which outlives the process (not the machine). The file is gone as soon as the store has the
decisions; the next daemon brings in what it finds there.

A batch script and its arguments are left out: users write secrets there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from berth.plugin.daemon import requests
from berth.plugin.daemon.messages import Refusal, parse
from berth.plugin.daemon.record import as_json, asked_of, clean
from berth.plugin.daemon.replies import parse_stamp
from berth.plugin.host import HOST, Host
from berth.plugin.store.records import DecisionRecord

_SCRIPT = b'"script":"'
_ARGUMENTS = re.compile(rb'"arguments":\[(?:[\s,]*"[^"\\]*(?:\\.[^"\\]*)*")*\s*\]', re.DOTALL)
"""Exact on JSON: within a string a quote has a backslash before it, so neither begins in one."""
_MOST_QUOTES = 100
"""A script with more is cut out by way of a parser: slower than a look for its end, but bounded."""
_BACKSLASH = ord("\\")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
_BATCH = 1_000
_TRIES = 100
"""Numbers tried for a new file: in containers every daemon has the same process id."""


class Journal:
    """``write`` is for the answering thread, everything else for the recorder's."""

    def __init__(self, prefix: Path, *, host: Host = HOST) -> None:
        self._prefix = prefix
        self._host, self._files = host, host.files
        self._number = 0
        self._written = 0
        self._torn = False
        """The last line was cut off: the next one begins with an end of line."""
        self.failed = 0
        """Answers that could not be written; they went out all the same."""
        self._path: Path | None = None
        self._handle = -1
        self._before = -1
        self._path, self._handle = self._opened()

    def write(
        self, time_s: float, mode: str, request: bytes, reply: bytes, user: str | None = None
    ) -> None:
        """Keep one answer; ``user``: the name, where the question has none. Never raises."""
        request = without_secrets(request)
        entry = b'%s{"t":%.3f,"m":"%s",%s"q":%s,"a":%s}\n' % (
            b"\n" if self._torn else b"",
            time_s,
            mode.encode(),
            b"" if user is None else b'"u":%s,' % json.dumps(user).encode(),
            request.strip(),
            reply.strip(),
        )
        try:
            self._torn = self._files.write(self._handle, entry) < len(entry)
        except OSError:
            self.failed += 1
        else:
            self._written += 1
            self.failed += self._torn

    def rotate(self) -> Path | None:
        """Begin another file; the one so far, to be removed once its decisions are stored.

        A decision must be in the recorder's queue before it is written here. None: nothing was
        written; where there was no file to write to, another is tried.
        """
        if self._handle < 0:
            self._path, self._handle = self._opened()
            return None
        if not self._written:
            return None
        path = self._path
        self._before = self._closed(self._before)
        self._before = self._handle  # the answering thread may be writing to it just now
        self._path, self._handle = self._opened()
        self._written = 0
        return path

    def close(self, *, remove: bool) -> None:
        """Close the files; ``remove`` the present one where all in it is stored."""
        self._before, self._handle = self._closed(self._before), self._closed(self._handle)
        if remove and self._path is not None:
            with suppress(OSError):
                self._files.remove(self._path)

    def remove(self, path: Path) -> bool:
        """Remove a file whose decisions are stored; False: that failed."""
        try:
            self._files.remove(path)
        except OSError:
            return False
        return True

    def left_behind(self) -> list[Path]:
        """Files of daemons that are no more. Raises OSError."""
        left = []
        for name in sorted(self._files.names(self._prefix.parent)):
            if not name.startswith(f"{self._prefix.name}."):
                continue
            path = self._prefix.with_name(name)
            with suppress(OSError):
                handle = self._files.open(path, os.O_RDONLY)
                try:
                    self._files.lock(handle)
                    left.append(path)
                finally:
                    self._files.close(handle)
        return left

    def bring_in(self, path: Path, store: Callable[[Sequence[DecisionRecord]], None]) -> int:
        """Hand a file's decisions to ``store``, then remove it; gives their number.

        What ``store`` raises comes out, and the file stays; so does OSError. One that is stored
        already stays as it is.
        """
        count = 0
        batch: list[DecisionRecord] = []
        with self._files.reading(path) as stream:
            for line in stream:
                record = _record(line, self._host.name())
                if record is not None:
                    batch.append(record)
                if len(batch) >= _BATCH:
                    store(batch)
                    count, batch = count + len(batch), []
        store(batch)
        self._files.remove(path)
        return count + len(batch)

    def _opened(self) -> tuple[Path | None, int]:
        """Open a new file, locked; gives its path and handle, (None, -1) where there is none."""
        for _ in range(_TRIES):
            self._number += 1
            name = f"{self._prefix.name}.{self._host.pid()}-{self._number}"
            path = self._prefix.with_name(name)
            try:
                handle = self._files.open(path, _FLAGS)
            except FileExistsError:
                continue
            except OSError:
                break
            try:
                self._files.lock(handle)
            except OSError:
                self._closed(handle)
                break
            return path, handle
        return None, -1

    def _closed(self, handle: int) -> int:
        """Close a handle where there is one; gives what stands for none."""
        if handle >= 0:
            with suppress(OSError):
                self._files.close(handle)
        return -1


def _record(line: bytes, host: str) -> DecisionRecord | None:
    """Return as much of a decision as the question and the answer tell: not the alternatives.

    None: the line was cut off when the daemon was killed, so that answer was not sent.
    """
    try:
        entry = json.loads(line.decode("utf-8", "replace"))
        ask = parse(json.dumps(entry["q"], ensure_ascii=False).encode("utf-8", "replace"))
        reply = entry["a"]
        stamp = parse_stamp(reply["stamp"]) or {}
        name = str(reply["decision"])
        time_s = float(entry["t"])
        edits = json.dumps(reply.get("edits") or {}, separators=(",", ":"))
        if ask.job.user is None and "u" in entry:
            ask.job.user = str(entry["u"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, Refusal):
        return None
    request = requests.request(ask.job, requests.choice(ask.job), auto_queue=None)
    return DecisionRecord(
        id=name,
        time_s=time_s,
        host=host,
        scheduler=ask.scheduler,
        user=clean(request.user, 128),
        account=clean(request.account, 128) if request.account else None,
        queue=clean(request.queue, 255) if request.queue else None,
        workload=stamp.get("workload"),
        mode=str(entry["m"]),
        action=str(reply["action"]),
        code=str(reply.get("code", "")),
        reason=clean(str(reply.get("message") or reply.get("code", "")), 4_000),
        chosen=stamp.get("to"),
        bundle=stamp.get("bundle"),
        policy=None,
        inputs_digest="",
        latency_us=0,
        request=as_json(asked_of(request)),
        edits=edits,
    )


def without_secrets(request: bytes) -> bytes:
    """Return the request without script and arguments. Runs in the answering thread."""
    cut = request
    match = _ARGUMENTS.match(cut, max(0, cut.find(b'"arguments":["')))
    if match is not None:
        cut = b"".join((cut[: match.start()], b'"arguments":[]', cut[match.end() :]))
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
    """Return where the quote is that ends the JSON text; None: not within some quotes."""
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
    """Return whether arguments were not cut: of a filter that writes JSON with blanks, or twice."""
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
