"""Every target takes its corpus and mutations of it, without Atheris; `make fuzz` goes on."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from fuzz_targets import CORPUS, TARGETS, Target, refusing, seeds_of
from run_fuzz import LONGEST_S, replay

MUTATIONS = 100
"""Of each target."""
MOST_CORPUS_BYTES = 64 * 1024


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_what_is_near_it_is_taken_or_refused(name: str) -> None:
    target, seeds = TARGETS[name], seeds_of(name)
    assert seeds
    for data in (b"", b"\0", b"{}", b"[" * 3000, *seeds):
        target.take(data)
    for number in range(MUTATIONS):
        dice = random.Random(number)  # noqa: S311 - the same in every run
        data = target.mutate(dice.choice(seeds), dice)
        target.take(data if number % 4 else target.mutate(data, dice))


def test_the_corpus_is_small_and_each_folder_has_a_target() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_CORPUS_BYTES
    assert {path.parent.name for path in files} <= set(TARGETS)


def test_a_refusal_is_one_short_sentence() -> None:
    for said in ("", "one line\nand another", "x" * 5000):
        with pytest.raises(AssertionError), refusing(ValueError):
            raise ValueError(said)
    with refusing(ValueError):
        raise ValueError("what is wrong, and where")


def test_a_replay_tells_inputs_that_fail_or_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def take(data: bytes) -> None:
        began_s = time.thread_time()
        while data == b"slow" and time.thread_time() - began_s < 1.1 * LONGEST_S:
            pass
        assert data != b"bad", "planted"

    monkeypatch.setitem(TARGETS, "planted", Target(take))
    for said in ("good", "slow", "bad"):
        (tmp_path / said).write_text(said)
    assert replay("planted", [tmp_path / "good"]) == 0
    assert replay("planted", [tmp_path / "good", tmp_path / "slow"]) == 1
    assert "SLOW" in capsys.readouterr().out
    assert replay("planted", [tmp_path / "bad", tmp_path / "good"]) == 1
    assert "AssertionError: planted" in capsys.readouterr().err
