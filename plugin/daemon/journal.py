"""A file of answers that are not yet stored, so that a killed daemon's decisions are not lost.

The recorder stores answers some tenths of a second after they are sent. So each request that got a
decision is written with its reply to a file beside the spool before the reply is sent: one write
into the page cache, which survives the process (not the machine). The file is removed as soon as
the store has its decisions; a daemon that starts stores the decisions in such files. Batch scripts
and their arguments are left out, because users write secrets there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from berth.plugin.daemon import requests
from berth.plugin.daemon.protocol import Refusal, parse, parse_stamp
from berth.plugin.daemon.record import as_json, asked_of, clean
from berth.plugin.host import HOST, Host
from berth.plugin.store.records import DecisionRecord

_SCRIPT = b'"script":"'
_ARGUMENTS = re.compile(rb'"arguments":\[(?:[\s,]*"[^"\\]*(?:\\.[^"\\]*)*")*\s*\]', re.DOTALL)
"""Text that begins the arguments in a request's JSON. It cannot occur inside a JSON string, where
quotes are escaped.
"""
_MOST_QUOTES = 100
"""A script with more quotes than this is removed by the JSON parser, which is slower than searching
for the script's end, but bounded in time.
"""
_BACKSLASH = ord("\\")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
_BATCH = 1_000
_TRIES = 100
"""How many file numbers are tried for a new file: in containers every daemon has the same process
id.
"""


class AnswerJournal:
    """The journal's files. ``write`` is for the answering thread, all other methods for the
    recorder's.
    """

    def __init__(self, prefix: Path, *, host: Host = HOST) -> None:
        self._prefix = prefix
        self._host, self._files = host, host.files
        self._number = 0
        self._written = 0
        self._torn = False
        """Whether the last write was incomplete: the next entry then begins with a newline."""
        self.failed = 0
        """Number of answers that could not be journalled; their replies were sent all the same."""
        self._path: Path | None = None
        self._handle = -1
        self._before = -1
        self._path, self._handle = self._opened()

    def write(
        self, time_s: float, mode: str, request: bytes, reply: bytes, user: str | None = None
    ) -> None:
        """Write one answer to the journal; never raises.

        ``user`` is the user's name where the request has only the uid.
        """
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
        """Begin a new file and return the previous one, to be removed once its decisions are
        stored.

        A decision must be in the recorder's queue before it is written to the journal. None: the
        current file is empty, or no file was open; in that case a new one is opened.
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
        """Close the files; ``remove`` also deletes the current one, whose decisions must be
        stored.
        """
        self._before, self._handle = self._closed(self._before), self._closed(self._handle)
        if remove and self._path is not None:
            with suppress(OSError):
                self._files.remove(self._path)

    def remove(self, path: Path) -> bool:
        """Remove a file whose decisions are stored; return False where removing failed."""
        try:
            self._files.remove(path)
        except OSError:
            return False
        return True

    def left_behind(self) -> list[Path]:
        """Return the journal files of daemons that no longer run. Raises OSError."""
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
        """Pass the decisions in a journal file to ``store``, then remove the file; return their
        number.

        Exceptions of ``store`` and OSError pass through, and the file then stays. Decisions that
        are already in the store stay unchanged there.
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
        """Open and lock a new file; return its path and handle, or (None, -1) where that fails."""
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
        """Close ``handle`` unless it is -1; return -1, which stands for no open file."""
        if handle >= 0:
            with suppress(OSError):
                self._files.close(handle)
        return -1


def _record(line: bytes, host: str) -> DecisionRecord | None:
    """Return the decision in a journal line, without its ranked alternatives; None: an incomplete
    line.

    A line is incomplete where the daemon was killed while it wrote the line, before it sent the
    reply.
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
    """Return the request line without script and arguments. Runs in the answering thread."""
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
    """Return the index of the quote that ends the JSON string starting at ``begin``; None: it is
    not among the first ``_MOST_QUOTES`` quotes.
    """
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
    """Return whether the line may still contain arguments: a filter wrote blanks, or the
    key twice.
    """
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
