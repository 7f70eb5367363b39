"""Progress of long work: shown on a terminal after a second, gone before a result is printed."""

from __future__ import annotations

import io
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from stored import STORED_DECISION

from berth.pilot import progress
from berth.pilot.options import PilotOptions
from berth.pilot.progress import clocked, is_shown, lasting, report, say_nothing, showing, steps
from berth.pilot.run_pilot import run_pilot
from berth.plugin.cli import main
from berth.plugin.report import progress_bars as bars
from berth.plugin.report.progress_bars import saying, shown_reports, step_bar
from berth.plugin.store import Store
from berth.policies.mig import GpuState, lookup
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.planner import plan
from berth.policies.replay import Backfill, Settings, Trace, one_pool, replay, trace_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What bars are shown on, at once."""
    made = Terminal()
    monkeypatch.setattr(bars, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: Console(file=made, force_terminal=True, width=100)
    )
    return made


def test_nobody_watches_unless_asked() -> None:
    assert not is_shown()
    report("anything", 1, 2)
    seen: list[tuple[str, int, int]] = []
    with showing(lambda *what: seen.append(what)):
        assert is_shown()
        assert list(steps("things", range(1000))) == list(range(1000))
    assert not is_shown()
    assert seen[0] == ("things", 0, 1000)
    assert seen[-1] == ("things", 1000, 1000)
    assert len(seen) <= 202


def test_on_a_terminal_it_says_how_far_and_how_long(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with shown_reports():
        for done in range(4):
            report("jobs replayed", done, 4)
        report("jobs replayed", 4, 4)
        shown = terminal.getvalue()
    assert "jobs replayed" in shown
    assert "left:" in shown
    with saying("pilot") as say:
        say("kernel TRIAD", 1, 4)
        say("emulated run")
    assert "pilot: kernel TRIAD" in terminal.getvalue()


def test_all_bars_of_a_command_are_of_one_display(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two would write over each other: a tune whose trials replay jobs, say."""
    monkeypatch.setattr(sys, "stderr", terminal)
    made: list[object] = []
    make = bars._bar
    monkeypatch.setattr(bars, "_bar", lambda: made.append(1) or make())
    with shown_reports(), saying("tune") as say:
        say("1 of 9 trials", 1, 9)
        report("jobs replayed", 1, 4)
        report("jobs replayed", 2, 4)
        with step_bar("training", 3) as advance:
            advance()
        report("jobs replayed", 4, 4)
    shown = terminal.getvalue()
    assert all(words in shown for words in ("tune: 1 of 9 trials", "jobs replayed", "training"))
    assert len(made) == 1


def test_work_that_nobody_counts_is_shown_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    seen: list[tuple[str, int, int]] = []
    ticked = threading.Event()

    def show(what: str, done: int, of: int) -> None:
        seen.append((what, done, of))
        if len(seen) > 3:
            ticked.set()

    with showing(show), lasting("planning", 100.0):
        assert ticked.wait()
    assert seen[0] == ("planning", 0, 100_000)
    assert seen[-1] == ("planning", 1, 1)
    assert [done for _, done, _ in seen[:-1]] == sorted(done for _, done, _ in seen[:-1])
    with lasting("planning", 100.0), clocked(say_nothing, "planning", 100.0):
        pass
    seen.clear()
    with clocked(show, "longer than usual", 0.0, 50.0):
        pass
    assert seen[0][2] == 50_000


def test_who_takes_enough_ends_the_bar() -> None:
    seen: list[tuple[str, int, int]] = []
    with showing(lambda *what: seen.append(what)):
        for item in steps("things", range(10)):
            if item == 3:
                break
    assert seen[-1] == ("things", 10, 10)


def test_long_commands_report_how_far_they_are(tmp_path: Path) -> None:
    """Those that are not covered by a test of their own."""
    seen: set[str] = set()
    with showing(lambda what, _done, _of: seen.add(what)):
        store = Store.open(str(tmp_path / "store.db"))
        store.decisions.add([replace(STORED_DECISION, id=f"d{n}") for n in range(3)])
        assert store.decisions.prune(2_000.0) == 3
        assert list(store.past_jobs.of_users()) == []
        store.close()
        states = [GpuState("0", lookup("A100-40GB"))]
        plan(states, [Demand("bert", (SliceOption("2g.10gb"),))], "jobs")
    assert seen >= {
        "changes of the schema made", "decisions deleted", "past jobs read",
        "planning slices, at most 30 s",
    }  # fmt: skip
    said: list[str] = []
    run_pilot(
        PilotOptions(("true",), dict(os.environ), collectors=("proc",), repeats=2),
        lambda what, _done=0, of=0: said.append(what) if of else None,
    )
    assert "native run 2 of 2" in said


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with saying("pilot") as say:
        say("kernel TRIAD", 1, 4)
    main(["site", "platform", "list"])
    assert capsys.readouterr().err == ""


def trace(jobs: int = 400) -> Trace:
    random = np.random.default_rng(4)
    submit = np.sort(random.integers(0, 20_000, jobs)).astype(float)  # some at the same moment
    runtime = random.integers(1, 900, jobs).astype(float)
    return trace_of(submit, runtime, random.integers(1, 9, jobs), queues=("all",))


@pytest.mark.parametrize("backfill", [Backfill.FCFS, Backfill.EASY])
def test_a_replay_that_is_watched_is_the_same(backfill: Backfill) -> None:
    jobs, cluster, settings = trace(), one_pool(32), Settings(backfill, compiled=False)
    alone = replay(jobs, cluster, settings)
    seen: list[int] = []
    with showing(lambda _what, done, _of: seen.append(done)):
        watched = replay(jobs, cluster, settings)
    assert len(seen) > 100
    assert seen == sorted(seen)
    np.testing.assert_array_equal(alone.start_s, watched.start_s)
    np.testing.assert_array_equal(alone.end_s, watched.end_s)
