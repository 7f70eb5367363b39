"""A program of several threads is also run on one, where it takes one and is short enough.

What its runs take is made up: how well threads share work cannot be timed beside other tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from berth.pilot import run_pilot as pilot
from berth.pilot.launch import Order
from berth.pilot.native import Native, run_native, runtime_of
from berth.pilot.options import PilotOptions
from berth.pilot.plausible import own_time_s
from berth.pilot.profile import Profile
from berth.pilot.run_pilot import run_pilot

TOGETHER_S, ALONE_S = 3.0, 5.0


@pytest.fixture
def piloted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Profile]:
    monkeypatch.chdir(tmp_path)
    quiet = {k: v for k, v in os.environ.items() if not k.startswith(("OMP", "PMI", "SLURM"))}
    options = PilotOptions(
        command=("true",), env=quiet, collectors=("proc",), repeats=1, show_output=False
    )

    def run(
        *, takes_one: bool = True, cpu_s: float = 5.0, waited_s: float = 0.0, fails: bool = False,
        **more: Any,
    ) -> Profile:  # fmt: skip
        def made_up(order: Order, *words: Any, **rest: Any) -> Native:
            found, one = run_native(order, *words, **rest), order.env.get("OMP_NUM_THREADS") == "1"
            alone = one and takes_one
            wall_s = (ALONE_S if alone else TOGETHER_S) + (waited_s if one else 0.0)
            first = replace(
                found.first, wall_s=wall_s, threads_busy=1 if alone else 2,
                usage={"ru_utime": cpu_s}, waited_s=waited_s if one else 0.0,
                machine_s={"busy": cpu_s + (2 * waited_s if one else 0.0)},
                exit_code=1 if one and fails else 0,
            )  # fmt: skip
            return replace(
                found,
                first=first,
                runtime=runtime_of([own_time_s(first)]) if first.succeeded else None,
            )

        monkeypatch.setattr(pilot, "run_native", made_up)
        return run_pilot(replace(options, **more))

    return run


def test_the_time_on_one_thread_is_kept(piloted: Callable[..., Profile]) -> None:
    found = piloted()
    assert found.runs_on.threads == 2
    assert found.runtime is not None
    assert (found.runtime.median_s, found.one_thread_s) == (TOGETHER_S, ALONE_S)
    assert Profile.model_validate_json(found.model_dump_json(by_alias=True)) == found


def test_it_is_less_what_it_waited_for_a_processor(piloted: Callable[..., Profile]) -> None:
    assert piloted(waited_s=1.5).one_thread_s == pytest.approx(ALONE_S)


def test_one_thread_takes_no_longer_than_all_threads_one_after_the_other(
    piloted: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, or a throttled one, the run on one thread may seem longer."""
    monkeypatch.setattr(sys.modules[__name__], "ALONE_S", 3 * TOGETHER_S)
    assert piloted().one_thread_s == 2 * TOGETHER_S


@pytest.mark.parametrize(
    "why",
    [
        {"takes_one": False},
        {"cpu_s": 1.2 * ALONE_S},  # two threads computed, whatever was seen of them
        {"fails": True},
        {"cpu_s": 61.0},
        {"time_limit_s": 15.0},
        {"threads_sweep": (1, 2)},
        {"env": {"PATH": os.environ["PATH"], "OMPI_COMM_WORLD_SIZE": "2"}},
    ],
    ids=["keeps its threads", "was busy", "fails", "long", "no time", "a sweep", "a rank"],
)
def test_otherwise_there_is_none_and_no_word_of_it(
    piloted: Callable[..., Profile], why: dict[str, Any]
) -> None:
    found = piloted(**why)
    assert found.complete
    assert found.one_thread_s is None
    assert not any("thread" in text for text in found.warnings)


def test_a_number_of_threads_that_the_program_does_not_take_is_not_in_the_sweep(
    piloted: Callable[..., Profile],
) -> None:
    assert [point.threads for point in piloted(threads_sweep=(1, 2)).scaling] == [1, 2]
    fixed = piloted(takes_one=False, threads_sweep=(1, 2))
    assert [point.threads for point in fixed.scaling] == [2]
    assert any("1 threads: left out" in text for text in fixed.warnings)
