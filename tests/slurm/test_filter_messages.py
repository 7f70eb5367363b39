"""Whom the filter tells what: nobody twice, nobody who wants quiet, and sbatch's filter first."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from filter_bench import FilterBench, Outcome

AUTO = {"partition": "auto"}
SENTENCE = "this job runs in gpu; opt out with --comment=berth:off"
MOVED = f"berth: note: {SENTENCE}"


def submitted(
    bench: FilterBench, comment: str | None, reply: Reply | None = None, **order: Any
) -> Outcome:
    with FakeDaemon(bench.socket, lambda _: reply or move_to("gpu")):
        return bench.submit({**AUTO, "comment": comment}, **order)


def said(outcome: Outcome) -> str | None:
    """The sentence that travels in the stamp to sbatch's filter."""
    text = re.search(r" said=([\w.%]+)$", outcome.job.get("admin_comment", ""))
    return text and re.sub(r"%(\d{3})", lambda octal: chr(int(octal[1], 8)), text[1])


def test_without_the_client_filter_sbatch_prints_the_line(bench: FilterBench) -> None:
    outcome = submitted(bench, "mine")
    assert outcome.user == [MOVED]
    assert said(outcome) is None


@pytest.mark.parametrize("own_words", [None, "mine", "mine berth:app"])
def test_the_client_filters_word_is_taken_off_and_nothing_is_printed(
    bench: FilterBench, own_words: str | None
) -> None:
    comment = f"{own_words} " if own_words else ""
    for says in ("tty", "quiet"):
        outcome = submitted(bench, f"{comment}berth-client:{says}")
        assert outcome.user == []
        assert outcome.job.get("comment") == own_words
        assert outcome.job["partition"] == "gpu"
        assert said(outcome) == (SENTENCE if says == "tty" else None)


def test_the_word_is_taken_off_also_where_berth_does_nothing(bench: FilterBench) -> None:
    job = {**AUTO, "comment": "mine berth-client:tty"}
    for outcome in (bench.submit(job), bench.submit({**job, "partition": "cpu"}, batch=False)):
        assert outcome.job["comment"] == "mine"
        assert outcome.user == []
    (bench.folder / "off").touch()
    assert bench.submit(job).job["comment"] == "mine"


def test_the_daemon_does_not_see_the_word(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit({**AUTO, "comment": "mine berth-client:tty"})
        bench.submit({**AUTO, "comment": "berth-client:tty"})
    assert [request["job"].get("comment") for request in daemon.requests] == ["mine", None]


def test_the_word_carries_what_a_user_set_for_all_jobs(bench: FilterBench) -> None:
    """With ``--export=NONE``, and of ``srun`` and ``salloc``, nothing else does."""
    comment = "mine berth-client:tty;mode=advise;workload=a%040b%0641"
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        left = bench.submit({**AUTO, "comment": "mine berth-client:quiet;mode=off"})
        for batch in (True, False):
            assert bench.submit({**AUTO, "comment": comment}, batch=batch).job["comment"] == "mine"
        bench.submit({**AUTO, "comment": comment}, environment={"BERTH_MODE": "shadow"})
    assert (left.job["comment"], left.job["partition"]) == ("mine", "auto")
    asked = [(job["job"].get("mode"), job["job"].get("workload")) for job in daemon.requests]
    assert asked == [("advise", "a b41"), ("advise", "a b41"), ("shadow", "a b41")]


@pytest.mark.parametrize(("value", "told"), [("1", False), ("yes", False), ("0", True), ("", True)])
def test_a_user_who_wants_quiet_has_it(bench: FilterBench, value: str, told: bool) -> None:
    outcome = submitted(bench, None, environment={"BERTH_QUIET": value})
    assert outcome.user == ([MOVED] if told else [])
    assert outcome.job["partition"] == "gpu"


def test_a_job_that_is_left_alone_is_not_told_so_unless_the_site_wants_it(
    bench: FilterBench,
) -> None:
    order: dict[str, Any] = {"script_bytes": list(b"#!/bin/sh\n#SBATCH --deadline=now+1\n")}
    assert submitted(bench, None, **order).user == []
    bench.settings = {"messages": "all"}
    (sentence,) = submitted(bench, None, **order).user
    assert sentence.startswith("berth: note: the job stays as it is")
    assert "--deadline" in sentence
    bench.settings = {"messages": "loud"}
    outcome = submitted(bench, None, **order)
    assert outcome.user == []
    assert any("messages must be changed, all or none" in line for line in outcome.log)


def test_a_long_sentence_does_not_cut_what_restores_the_job(bench: FilterBench) -> None:
    reply = {**move_to("gpu"), "message": "é " * 2000, "stamp": "berth/1 " + "s" * 500}
    outcome = submitted(bench, "berth-client:tty", reply)
    assert " was=partition:auto" in outcome.job["admin_comment"]
    assert len(outcome.job["admin_comment"]) <= 2100


def test_who_asked_for_a_place_hears_that_there_is_none_now_where_the_site_wants_it(
    bench: FilterBench,
) -> None:
    assert bench.submit(AUTO).user == []
    bench.settings = {"messages": "all"}
    assert bench.submit(AUTO).user == [
        "berth: note: no placement now, the job stays in partition auto"
    ]
    assert bench.submit({}).user == []
