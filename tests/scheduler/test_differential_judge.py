"""The differential's judge sees what Berth could break, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from differential.report import add, batch_row, seeds_left, summary
from differential.verdicts import Ask, Verdict, compared, judged_again

OF_THE_PLACE = re.compile("no such node")


@dataclass
class Half:
    accepted: bool = True
    message: str = ""
    started: bool = True
    waits_for: str = ""
    hopeless: bool = False
    was_edited: bool = False
    code: str = "-"


STARTED = Half()
REFUSED = Half(accepted=False, message="no such node", started=False)
WAITING = Half(started=False, waits_for="Resources")
LIMITED = Half(started=False, waits_for="QOSMaxCpuPerJobLimit", hopeless=True)
NEVER = Half(started=False, waits_for="BadConstraints", hopeless=True)
MOVED = Half(was_edited=True, code="placed")


@pytest.mark.parametrize(
    ("plain", "placed", "found"),
    [
        (STARTED, STARTED, None),
        (STARTED, MOVED, None),
        (STARTED, REFUSED, "rejected"),
        (WAITING, REFUSED, "rejected"),
        (STARTED, WAITING, "does not start"),
        (WAITING, LIMITED, "waits for QOSMaxCpuPerJobLimit, and as written for Resources"),
        (WAITING, WAITING, None),
        (WAITING, replace(WAITING, waits_for="Priority"), None),  # for the first of the two
        (WAITING, replace(WAITING, waits_for="Priority", was_edited=True), "waits for Priority"),
        (NEVER, WAITING, None),
        (NEVER, LIMITED, "waits for QOSMaxCpuPerJobLimit"),
        (WAITING, MOVED, None),
        (REFUSED, REFUSED, None),
        (REFUSED, MOVED, None),
        (REFUSED, STARTED, "accepted, and refused as written"),
        (replace(REFUSED, message="bad option"), MOVED, "accepted, and refused as written"),
    ],
)
def test_what_differs_is_found(plain: Half, placed: Half, found: str | None) -> None:
    differences = compared(plain, placed, OF_THE_PLACE)
    assert (found is None) == (differences == [])
    assert found is None or found in differences[0]


def test_a_difference_counts_only_if_the_pair_alone_shows_it_again() -> None:
    asked: list[str] = []

    def judge(asks: list[Ask]) -> list[Verdict[Half]]:
        asked.extend(str(ask) for ask in asks)
        wrong = {"always", "by chance"} if len(asks) > 1 else {"always"}
        return [
            Verdict(ask, STARTED, WAITING, ["x"] if ask.words[0] in wrong else []) for ask in asks
        ]

    jobs = [Ask((name,), "submit") for name in ("always", "by chance", "never")]
    always, chance, never = judged_again(judge, jobs)
    assert (always.differences, always.once) == (["x"], [])
    assert (chance.differences, chance.once) == ([], ["x"])
    assert (never.differences, never.once) == ([], [])
    assert asked[3:] == ["submit always", "submit by chance", "submit by chance"]


def test_a_report_goes_on_where_it_was_stopped_and_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.jsonl"
    first = seeds_left(report, ["a", "b"], pairs=250, batch=50, first=1)
    assert first == {"a": [1, 3, 5], "b": [2, 4]}
    found = [
        Verdict(Ask(("--gres=x",), "submit"), STARTED, MOVED, []),
        Verdict(Ask(("--gres=x",), "submit"), STARTED, WAITING, ["does not start"]),
        Verdict(Ask(("--hold",), "submit"), REFUSED, REFUSED, []),
    ]
    add(report, batch_row("a", 1, found, 0.0))
    assert seeds_left(report, ["a", "b"], pairs=250, batch=50, first=1) == {
        "a": [3, 5],
        "b": [2, 4],
    }
    assert summary(report) == 1
    said = capsys.readouterr().out
    assert "3 pairs, 2 accepted as written, 2 of them started, 1 moved by Berth (50%)" in said
    assert re.search(r"--gres +1/2 +moved", said)
    assert "1 differences\n  a seed 1: submit --gres=x: does not start" in said
