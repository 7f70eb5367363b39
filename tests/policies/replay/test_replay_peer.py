"""The replay beside AccaSim 1.1.3, by starts that it gave; ``make replay-peer`` asks it anew."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from berth.policies.replay import Backfill, Settings, Trace, one_pool, replay, trace_of

HERE = Path(__file__).parent
PEER = json.loads((HERE / "accasim_starts.json").read_text())
TRACE = trace_of(
    np.array(PEER["submit_s"], float), np.array(PEER["runtime_s"], float),
    np.array(PEER["need"], np.int64), limit_s=np.array(PEER["limit_s"], float), queues=("all",),
)  # fmt: skip


def starts(trace: Trace, backfill: Backfill) -> list[float]:
    return replay(
        trace, one_pool(PEER["cores"]), Settings(backfill, compiled=False)
    ).start_s.tolist()


@pytest.fixture(scope="module")
def peer() -> ModuleType:
    file = HERE.parents[2] / "benchmarks" / "peers" / "replay_peer.py"
    spec = importlib.util.spec_from_file_location("replay_peer", file)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_fcfs_starts_every_job_when_accasim_does() -> None:
    assert starts(TRACE, Backfill.FCFS) == PEER["fifo"]


def test_easy_differs_by_three_rules_of_accasims_and_by_nothing_else(peer: ModuleType) -> None:
    cores = PEER["cores"]
    own = starts(TRACE, Backfill.EASY)
    assert peer.starts_by_rules(TRACE, cores, peer.Rules()) == own
    assert peer.starts_by_rules(TRACE, cores, peer.ACCASIM) == PEER["easy"]
    assert own != PEER["easy"]  # else its rules would explain nothing
    fewer = (peer.Rules(fills=True), peer.Rules(holds=True, keeps=True))
    for rules in fewer:  # each of its rules is needed
        assert peer.starts_by_rules(TRACE, cores, rules) != PEER["easy"]
