"""Questions of the view *What if*: one replay at a time, in a process of its own."""

from __future__ import annotations

import atexit
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import UsageError

MOST_KEPT = 10
"""Number of answers that are kept, until the page ends."""
_WORKER = (sys.executable, "-m", "berth.plugin.cli.ui.what_if_worker")
_MOST_TEXT = 2_000
_GIVEN_UP = "it was given up: it took more than an hour of processor time"


@dataclass(frozen=True, slots=True)
class ReplayQuestion:
    """A replay that was asked for, and the process that runs it."""

    number: int
    words: tuple[str, ...]
    """The words of the command, for people."""
    begun_s: float
    """When it was asked (Unix, s)."""
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def report(self) -> Path:
        """Return the path of the HTML report; it exists once the replay has succeeded."""
        return self.folder / f"answer-{self.number}.html"

    @property
    def summary(self) -> str:
        """Return what was asked, without the site and the store."""
        words = list(self.words[2:])
        for option in ("--site", "--store"):
            if option in words:
                begin = words.index(option)
                del words[begin : begin + 2]
        return shlex.join(words)

    @property
    def is_running(self) -> bool:
        """Return whether the process still runs."""
        return self.process.poll() is None

    @property
    def progress(self) -> tuple[str, float]:
        """Return what is being done, and the share of it that is done."""
        try:
            activity, done, of = (self.folder / "progress").read_text().split("\t")
            return activity, int(done) / max(1, int(of))
        except (OSError, ValueError):  # not yet written, or half written
            return "reading the jobs", 0.0

    @property
    def failure(self) -> str | None:
        """Return why there is no answer; None: there is one, or it is still made."""
        status = self.process.poll()
        if status in (None, 0):
            return None
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            return _GIVEN_UP
        if status == -signal.SIGTERM:
            return "it was cancelled"
        text = (self.folder / "problem").read_text(errors="replace")[-_MOST_TEXT:]
        # The sender does not know the temporary path.
        return text.replace(f"{self.folder}/", "").removeprefix("berth: ").strip()


class Questions:
    """Runs questions one at a time; answers are kept until the page ends."""

    def __init__(self, worker: Sequence[str] = _WORKER) -> None:
        """Take the command that runs a question; the progress file and the words follow it."""
        self._worker = worker
        self._lock = threading.Lock()
        self._root: Path | None = None
        self._asked: list[ReplayQuestion] = []

    @property
    def last(self) -> ReplayQuestion | None:
        """Return the question that was asked last."""
        return self._asked[-1] if self._asked else None

    @property
    def answered(self) -> list[ReplayQuestion]:
        """Return the questions that have an answer, newest first."""
        return [asked for asked in reversed(self._asked) if asked.report.exists()]

    def room(self) -> Path:
        """Return a new empty folder for the files of a question."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="berth-what-if-"))
            atexit.register(self._end)
        return Path(tempfile.mkdtemp(dir=self._root))

    def ask(self, words: Sequence[str], folder: Path) -> None:
        """Run ``berth replay`` with these words; a file beside the report has its progress.

        Raises UsageError while another question runs.
        """
        with self._lock:
            if self.last is not None and self.last.is_running:
                raise UsageError(
                    "another question is being answered", hint="wait for it, or cancel it"
                )
            number = self._asked[-1].number + 1 if self._asked else 1
            command = (
                *self._worker, str(folder / "progress"), "replay", *words,
                *("--html", str(folder / f"answer-{number}.html")),
            )  # fmt: skip
            with (folder / "problem").open("wb") as problem:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=problem,
                    cwd=folder,
                )  # fmt: skip
            shown = tuple(word.replace(f"{folder}/", "") for word in ("berth", "replay", *words))
            self._asked.append(ReplayQuestion(number, shown, time.time(), folder, process))
            for old in self._asked[:-MOST_KEPT]:
                shutil.rmtree(old.folder, ignore_errors=True)
            del self._asked[:-MOST_KEPT]

    def cancel(self) -> None:
        """End the question that is being answered, if there is one."""
        with self._lock:
            if self.last is not None and self.last.is_running:
                self.last.process.terminate()
                self.last.process.wait()

    def _end(self) -> None:
        self.cancel()
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
