"""What a store must do, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text as text_
from stored import STORED_DECISION
from thorough import examples

from berth.pilot.errors import StoreError, UsageError
from berth.pilot.run import Run
from berth.plugin.store import ForecastRecord, PlacedRun, Store, WorkloadRecord, pruning
from berth.plugin.store.decisions import Decisions
from berth.plugin.store.records import DecisionArm, DecisionInputs, FingerprintRecord, RunSums
from berth.plugin.store.tables import REVISIONS, metadata
from berth.plugin.store.upgrade import schema_version

PROFILE = WorkloadRecord("stream", "program", "sha256:1", '{"name": "stream"}', "alice", 1000.0)
FORECAST = ForecastRecord("stream", "bundle-1", '{"curves": {}}', 1001.0)
DECISION = replace(STORED_DECISION, account="physics")


def at_once(*calls: Callable[[], object]) -> None:
    """Run them in threads that begin together; what one raises is raised."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait()
        call()

    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(run, call) for call in calls]:
            done.result()


def test_the_tables_are_what_the_migrations_make(store: Store) -> None:
    with store.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = [d for d in compare_metadata(context, metadata) if not _only_a_comment(d)]
    assert found == []


def _only_a_comment(difference: object) -> bool:
    return isinstance(difference, tuple) and difference[0] in (
        "add_table_comment",
        "remove_table_comment",
    )


def test_a_new_store_has_the_newest_schema(store: Store) -> None:
    assert schema_version(store.database) == REVISIONS[-1]


def test_opening_twice_at_once_migrates_once(store_url: str) -> None:
    at_once(*[lambda: Store.open(store_url).close()] * 4)
    assert Store.reading(store_url).revision() == 0


def test_a_profile_comes_back_as_it_was_stored(store: Store) -> None:
    assert store.workload("stream") is None
    store.add(PROFILE)
    assert store.workload("stream") == PROFILE
    assert store.workloads() == [PROFILE]


def test_a_different_profile_of_the_same_name_is_refused_unless_asked(store: Store) -> None:
    store.add(PROFILE)
    store.add(PROFILE)  # the same again is no news
    other = replace(PROFILE, digest="sha256:2", document="{}")
    with pytest.raises(UsageError, match="in the store already") as refused:
        store.add(other)
    assert "--replace" in (refused.value.hint or "")
    assert store.workload("stream") == PROFILE
    store.put_forecast(FORECAST)
    store.add(other, replace=True)
    assert store.workload("stream") == other
    assert store.forecasts("stream") == []  # it was of the old content


def test_a_forecast_needs_its_profile(store: Store) -> None:
    with pytest.raises(UsageError, match="no workload named 'stream'"):
        store.put_forecast(FORECAST)
    with pytest.raises(UsageError, match="no workload named 'stream'"):
        store.attach_script(FingerprintRecord("sha256:s", "stream", None, 1.0))


def test_the_newest_forecast_comes_first(store: Store) -> None:
    store.add(PROFILE)
    newer = replace(FORECAST, bundle="bundle-2", created_s=900.0)  # a clock that was set back
    store.put_forecast(FORECAST)
    store.put_forecast(newer)
    assert store.forecasts("stream") == [newer, FORECAST]
    again = replace(FORECAST, document='{"again": 1}')
    store.put_forecast(again)
    assert store.forecasts("stream") == [again, newer]
    assert store.changes_since(0).forecasts == (again,)


def test_removing_a_profile_removes_all_that_hangs_on_it(store: Store) -> None:
    store.add(PROFILE)
    store.put_forecast(FORECAST)
    store.attach_script(FingerprintRecord("sha256:s", "stream", 3.5, 1.0))
    assert store.remove_workload("stream")
    assert not store.remove_workload("stream")
    changes = store.changes_since(0)
    assert (changes.workloads, changes.forecasts, changes.fingerprints) == (frozenset(), (), ())


def test_every_change_raises_the_revision_and_shows_only_what_is_new(store: Store) -> None:
    seen = [store.revision()]
    store.add(PROFILE)
    seen.append(store.revision())
    store.put_forecast(FORECAST)
    seen.append(store.revision())
    store.attach_script(FingerprintRecord("sha256:s", "stream", 3.5, 1.0))
    seen.append(store.revision())
    assert seen == sorted(set(seen))
    assert store.changes_since(seen[1]).forecasts == (FORECAST,)
    assert store.changes_since(seen[2]).forecasts == ()
    assert store.changes_since(seen[2]).fingerprints[0].size == 3.5
    store.remove_workload("stream")
    assert store.revision() > seen[-1]


def test_a_script_can_be_given_another_meaning(store: Store) -> None:
    store.add(PROFILE)
    store.add(replace(PROFILE, name="wide"))
    store.attach_script(FingerprintRecord("sha256:s", "stream", None, 1.0))
    store.attach_script(FingerprintRecord("sha256:s", "wide", 2.0, 2.0))
    assert store.fingerprints("stream") == []
    assert store.fingerprints("wide") == [FingerprintRecord("sha256:s", "wide", 2.0, 2.0)]


def test_a_decision_stored_twice_is_there_once(store: Store) -> None:
    store.decisions.add([])
    store.decisions.add([DECISION, DECISION])
    store.decisions.add([DECISION])
    assert store.decisions.count() == 1
    assert store.decisions.get(DECISION.id) == DECISION
    assert store.decisions.get("unknown") is None


def test_decisions_are_listed_newest_first_and_by_what_is_asked(store: Store) -> None:
    many = [
        replace(
            DECISION,
            id=f"{n:016d}",
            time_s=float(n),
            user="bob" if n % 2 else "alice",
            code="placed" if n % 3 else "no-workload",
            workload="wide" if n == 7 else "stream",
        )
        for n in range(30)
    ]
    store.decisions.add(many)
    assert [d.time_s for d in store.decisions.last(3)] == [29.0, 28.0, 27.0]
    assert [d.time_s for d in store.decisions.last(2, user="bob", code="no-workload")] == [27.0, 21]
    assert [d.time_s for d in store.decisions.last(9, workload="wide")] == [7.0]


LONG = json.dumps([{"candidate": f"place-{n}", "score": n} for n in range(20)])


def _rankings(store: Store) -> int:
    with store.database.read() as connection:
        return int(connection.execute(text_("SELECT count(*) FROM rankings")).scalar_one())


def test_alternatives_that_come_again_are_stored_once_and_read_as_each_decisions_own(
    store: Store,
) -> None:
    names = [f"{n:016d}" for n in range(23)]
    made = [replace(DECISION, id=n, time_s=float(i), ranked=LONG) for i, n in enumerate(names)]
    other = replace(DECISION, id="other", time_s=99.0, ranked=LONG.replace("place", "spot"))
    short = replace(DECISION, id="short", time_s=98.0, ranked="[]")
    store.decisions.add(made[:1])  # a first one may be the only one
    assert _rankings(store) == 0
    store.decisions.add([*made[1:], short])
    store.decisions.add([other])
    assert _rankings(store) == 1
    assert store.decisions.of_ids(names) == {one.id: one for one in made}
    assert store.decisions.last(3) == [other, short, made[-1]]
    assert store.decisions.of_user(DECISION.user, 0.0, 97.0) == made
    assert store.decisions.get(names[7]) == made[7]
    assert {one.ranked for one in store.decisions.inputs(names).values()} == {LONG}
    assert store.decisions.inputs(names[:1]) == {
        names[0]: DecisionInputs(0.0, DECISION.request, LONG)
    }
    # Another daemon, or this one after its start, has not met them.
    Decisions(store.database).add([replace(made[0], id="again", time_s=100.0)])
    assert store.decisions.get("again") == replace(made[0], id="again", time_s=100.0)


def test_alternatives_stay_as_long_as_a_decision_has_them(store: Store) -> None:
    day_s = 86_400.0
    times_s = [1.0, 2.0, 1.9 * day_s, 2.5 * day_s, 4.0 * day_s]
    made = [
        replace(DECISION, id=f"{n:016d}", time_s=time_s, ranked=LONG)
        for n, time_s in enumerate(times_s)
    ]
    gone = [
        replace(one, id=f"b{one.id}", time_s=1.0, ranked=LONG.replace("place", "spot"))
        for one in made[:2]
    ]
    for one in (*made, *gone):
        store.decisions.add([one])
    assert _rankings(store) == 2
    assert store.decisions.prune(3.0 * day_s) == 6
    assert store.decisions.last(9) == made[-1:]
    assert _rankings(store) == 1
    assert store.decisions.prune(9.0 * day_s) == 1
    assert _rankings(store) == 0


def test_pruning_deletes_what_is_older_and_nothing_else(store: Store) -> None:
    store.decisions.add([replace(DECISION, id=str(n), time_s=float(n)) for n in range(10)])
    store.add(PROFILE)
    assert store.decisions.prune(4.0) == 4
    assert [d.time_s for d in store.decisions.last(99)] == [9.0, 8, 7, 6, 5, 4]
    assert store.workload("stream") == PROFILE


def test_outcomes_are_found_by_job_and_by_decision(store: Store) -> None:
    first = PlacedRun("lab", "17", "alice", "RUNNING", decision=DECISION.id)
    store.outcomes.put([first, replace(first, job_id="18"), replace(first, cluster="other")])
    done = replace(first, state="COMPLETED", peak_bytes=2**40, end_s=5.0)
    store.outcomes.put([done])
    assert store.outcomes.of_job("17", cluster="lab") == done
    assert store.outcomes.of_job("99") is None
    assert len(store.outcomes.of_decision(DECISION.id)) == 3


def test_a_task_of_an_array_is_one_row_whichever_id_came_first(store: Store) -> None:
    """Slurm's accounting calls a new task 9 for a while, and 7_2 later."""
    placed = PlacedRun("c", "9", decision="d1", end_s=5.0, workload="w", predicted_s=3.0)
    imported = Run("c", "7_2", "alice", "completed", 1.0, 2.0, 5.0, 3.0, name="a.sh")
    store.outcomes.put([placed, replace(placed, job_id="8", decision=None)])
    store.past_jobs.put([imported])
    for _ in range(2):
        store.past_jobs.put([replace(imported, raw_id="9")])
        store.outcomes.put([replace(placed, job_id="7_2", raw_id="9", user="alice")])
    (found,) = store.outcomes.of_decision("d1")
    assert store.outcomes.of_job("9") == store.outcomes.of_job("7_2") == found
    assert (found.job_id, found.name, found.user, found.predicted_s) == ("7_2", "a.sh", "alice", 3)
    assert [job.job_id for job in store.past_jobs.of_users()] == ["7_2"]
    assert store.outcomes.of_job("8") is not None


def test_outcomes_come_in_order_of_their_ends_a_page_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.plugin.store.runs._PAGE", 3)
    rows = [PlacedRun("lab", str(n), "alice", "completed", end_s=n // 2) for n in range(20)]
    store.outcomes.put([*rows[::-1], PlacedRun("other", "1", "alice", "failed", end_s=4.0)])
    store.outcomes.put([PlacedRun("lab", "running", "alice", "running")])
    found = list(store.outcomes.between(2.0, 8.0, cluster="lab"))
    assert sorted(o.job_id for o in found) == sorted(str(n) for n in range(4, 16))
    assert [o.end_s for o in found] == sorted(o.end_s or 0 for o in found)
    assert len(list(store.outcomes.between(0.0, 99.0))) == 21
    assert store.outcomes.newest_end_s("lab") == 9.0
    assert store.outcomes.prune(5.0) == 11
    assert [o.end_s for o in store.outcomes.between(0.0, 6.0)] == [5.0, 5.0]
    assert store.outcomes.newest_end_s("nowhere") is None


def test_the_newest_outcomes_come_in_order_of_their_ends(store: Store) -> None:
    rows = [
        PlacedRun("lab", str(n), f"user-{n}", "completed", end_s=n // 2, elapsed_s=n)
        for n in range(20)
    ]
    store.outcomes.put([*rows[::-1], PlacedRun("a", "4", "eve", "failed", end_s=4.0)])
    store.outcomes.put([PlacedRun("lab", "running", "alice", "running")])
    found = store.outcomes.newest(2.0, 8.0, 5)
    assert [one.user for one in found] == [f"user-{n}" for n in range(11, 16)]
    assert found[-1] == tuple(getattr(rows[15], name) for name in RunSums._fields)
    every = store.outcomes.newest(0.0, 99.0, 99)
    assert [one.user for one in every] == [one.user for one in store.outcomes.between(0.0, 99.0)]
    assert store.outcomes.count(2.0, 8.0, 99) == 13
    assert store.outcomes.count(2.0, 8.0, 7) == 7
    assert store.outcomes.newest(99.0, 100.0, 5) == []


def test_only_the_newest_decisions_are_counted_and_arms_are_read_alone(store: Store) -> None:
    changes = ({"code": "placed"}, {"code": "no-workload", "chosen": None}, {"code": "no-workload"})
    store.decisions.add(
        [replace(DECISION, **{"id": f"c{n}", "time_s": 50.0 + n, **one})
         for n, one in enumerate(changes)]
    )  # fmt: skip
    mode, action = DECISION.mode, DECISION.action
    assert store.decisions.counted(50.0, 2) == [(mode, action, "no-workload", 2)]
    assert store.decisions.counted(51.0, 9) == [(mode, action, "no-workload", 2)]
    assert len(store.decisions.counted(50.0, 9)) == 2
    assert (store.decisions.count(), store.decisions.count_since(51.0, 9)) == (3, 2)
    assert store.decisions.count_since(50.0, 1) == 1
    arm = DecisionArm(50.0, action, DECISION.code, version=DECISION.version)
    assert store.decisions.arms(["c0", "c9"]) == {"c0": arm}


def test_two_daemons_may_store_the_same_outcomes_at_once(store_url: str) -> None:
    rows = [PlacedRun("lab", str(n), "alice", "completed", end_s=1.0) for n in range(200)]
    stores = [Store.open(store_url) for _ in range(2)]

    def put(store: Store, records: list[PlacedRun]) -> None:
        for _ in range(5):
            store.outcomes.put(records)

    at_once(partial(put, stores[0], rows), partial(put, stores[1], rows[::-1]))
    assert len(list(stores[0].outcomes.between(0, 2))) == 200
    for one in stores:
        one.close()


@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_text_comes_back_letter_by_letter(store: Store, text: str) -> None:
    odd = replace(DECISION, id=f"{time.time_ns()}", reason=text, user=text[:128], request=text)
    store.decisions.add([odd])
    assert store.decisions.get(odd.id) == odd


def test_writers_at_once_lose_nothing(store: Store) -> None:
    def write(who: int) -> None:
        for n in range(10):
            store.decisions.add([replace(DECISION, id=f"{who}-{n}")])
            store.add(replace(PROFILE, name=f"p{who}-{n}"))

    at_once(*(partial(write, who) for who in range(4)))
    assert store.decisions.count() == 40
    assert len(store.workloads()) == 40
    assert store.revision() == 40


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rows are deleted at a time."""
    monkeypatch.setattr(pruning, "FIRST_ROWS", 10)
    monkeypatch.setattr(pruning, "MOST_ROWS", 10)


@pytest.mark.usefixtures("small_pieces")
def test_pruning_lets_others_write_in_between(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In many short transactions; what is younger stays, also what came meanwhile."""
    store.decisions.add(
        [replace(DECISION, id=f"old-{n}", time_s=float(n)) for n in range(95)]
        + [replace(DECISION, id="young", time_s=1_000.0)]
    )
    written = []

    def others_turn(_seconds: float) -> None:
        name = f"meanwhile-{len(written)}"
        store.decisions.add([replace(DECISION, id=name, time_s=2_000.0)])
        written.append(name)

    monkeypatch.setattr(pruning.time, "sleep", others_turn)
    assert store.decisions.prune(500.0) == 95
    assert len(written) >= 10  # more where a piece took long
    assert {one.id for one in store.decisions.last(1000)} == {"young", *written}


@pytest.mark.usefixtures("small_pieces")
def test_rows_of_one_moment_are_deleted_in_several_pieces(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an array that was cancelled; with a decision of them in every index."""
    monkeypatch.setattr(pruning.time, "sleep", lambda _seconds: None)
    store.decisions.add([replace(DECISION, id=f"d{n}", time_s=7.0) for n in range(35)])
    jobs = [PlacedRun("lab", str(n), "a", "cancelled", end_s=7.0) for n in range(35)]
    store.outcomes.put([*jobs, PlacedRun("lab", "running", "a", "running")])
    assert store.decisions.prune(7.0) == store.outcomes.prune(7.0) == 0
    assert store.decisions.prune(8.0) == store.outcomes.prune(8.0) == 35
    assert store.outcomes.of_job("running") is not None


@pytest.mark.usefixtures("small_pieces")
def test_what_was_pruned_before_the_store_failed_stays_pruned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fails(_seconds: float) -> None:
        raise StoreError("locked")

    store.decisions.add([replace(DECISION, id=f"d{n}", time_s=float(n)) for n in range(35)])
    monkeypatch.setattr(pruning.time, "sleep", fails)
    with pytest.raises(StoreError):
        store.decisions.prune(99.0)
    assert [one.time_s for one in store.decisions.last(99)] == [float(n) for n in range(34, 9, -1)]


def test_pieces_are_as_large_as_their_time_allows() -> None:
    assert pruning._next_rows(1_000, 10 * pruning.PIECE_S) == 100
    assert pruning._next_rows(1_000, pruning.PIECE_S / 10) == 2_000
    assert pruning._next_rows(1, 60.0) == 1
    assert pruning._next_rows(40_000, 0.0) == pruning.MOST_ROWS
