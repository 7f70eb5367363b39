"""Each index is there for a question, and each question for rows has its index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from empty_stores import open_store
from sqlalchemy import event, text

from berth.plugin.store import Store
from berth.plugin.store.pruning import _index_statements
from berth.plugin.store.tables import PARTIAL, metadata

ASKED_BY: dict[str, Callable[[Store], object]] = {
    "ix_decisions_time_s": lambda s: s.decisions.last(5),
    "ix_decisions_user_time_s": lambda s: s.decisions.last(5, user="alice"),
    "ix_decisions_code_time_s": lambda s: s.decisions.last(5, code="placed"),
    "ix_decisions_workload_time_s": lambda s: s.decisions.last(5, workload="app"),
    "ix_decisions_user_code_time_s": lambda s: s.decisions.last(5, user="alice", code="placed"),
    "ix_decisions_user_workload_time_s_code": lambda s: s.decisions.last(
        5, user="alice", workload="app"
    ),
    "ix_decisions_workload_code_time_s": lambda s: s.decisions.last(
        5, workload="app", code="placed"
    ),
    "ix_rankings_used_s": lambda s: s.decisions.prune(5.0),
    "ix_runs_decision": lambda s: s.outcomes.of_decision("d"),
    "ix_runs_followed_cluster_end_s": lambda s: s.outcomes.newest_end_s("lab"),
    "ix_runs_followed_end_s": lambda s: s.outcomes.newest(0.0, 9.0, 5),
    "ix_runs_accounted_cluster_end_s": lambda s: s.past_jobs.count(),
    "ix_runs_job_id": lambda s: s.outcomes.of_job("17"),
    "ix_runs_user_end_s": lambda s: list(s.past_jobs.of_users("alice")),
    "ix_runs_end_s": lambda s: s.outcomes.prune(5.0),
    "ix_runs_raw_id": lambda s: s.past_jobs.ids_of_raw("lab", ["7"]),
    "ix_runs_unseen": lambda s: s.learning.pending(0.0, 5),
    "ix_runs_looked_at": lambda s: s.learning.of_user("alice", 5),
    "ix_usages_received_s": lambda s: s.usages.lacking_since("job-end", 5.0),
    "ix_forecasts_revision": lambda s: s.changes_since(5),
    "ix_fingerprints_workload": lambda s: s.fingerprints("app"),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How SQLite looks up what each question asks for."""
    path: Path = tmp_path_factory.mktemp("indexes") / "store.db"
    store = open_store(f"sqlite:///{path}")
    asked: list[tuple[str, object]] = []

    def note(_connection: object, _cursor: object, statement: str, *rest: object) -> None:
        asked.append((statement, rest[0]))

    event.listen(store.database.engine, "before_cursor_execute", note)
    found = {}
    for index, ask in ASKED_BY.items():
        asked.clear()
        ask(store)
        statements = [one for one in asked if not one[0].startswith(("BEGIN", "INSERT"))]
        with store.database.read() as connection:
            rows = [
                row
                for statement, values in statements
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            ]
        found[index] = " ".join(row[3] for row in rows)
    store.close()
    return found


def test_every_index_is_asked_for() -> None:
    assert set(ASKED_BY) == {i.name for table in metadata.tables.values() for i in table.indexes}


@pytest.mark.parametrize("index", ASKED_BY)
def test_the_question_is_answered_by_the_index(index: str, plans: dict[str, str]) -> None:
    assert index in plans[index]


@pytest.mark.parametrize(
    "index", [name for name in ASKED_BY if "decisions" in name or "unseen" in name]
)
def test_rows_come_from_the_index_in_their_order(index: str, plans: dict[str, str]) -> None:
    assert "USE TEMP B-TREE FOR ORDER BY" not in plans[index]


@pytest.mark.parametrize("table", ["decisions", "runs", "rankings"])
def test_pruning_reads_each_index_before_it_keeps_others_from_writing(
    table: str, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    of = metadata.tables[table]
    column = next(of.c[name] for name in ("time_s", "end_s", "used_s") if name in of.c)
    with store.database.read() as connection:
        plans = [
            " ".join(
                row[3]
                for row in connection.execute(
                    text(f"EXPLAIN QUERY PLAN {statement}"), {"before_s": 5.0, "count": 9}
                )
            )
            for statement in _index_statements(column)
        ]
    store.close()
    others = [
        one
        for one in of.indexes
        if next(iter(one.columns)).name != column.name and one.name not in PARTIAL
    ]
    assert f"sqlite_autoindex_{table}_1" in plans[0]
    for index, plan in zip(others, plans[1:], strict=True):
        assert f"same USING COVERING INDEX {index.name}" in plan
