"""A store of an earlier version is upgraded, and keeps its rows."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import text
from stored import STORED_DECISION

from berth.pilot.run import Run
from berth.plugin.store import PlacedRun, Store
from berth.plugin.store.tables import REVISIONS, metadata
from berth.plugin.store.upgrade import schema_version


def test_a_store_of_the_first_schema_is_upgraded(store: Store) -> None:
    store.decisions.add([STORED_DECISION])
    with store.database.write() as connection:
        if store.database.path is not None:
            for table in metadata.tables:
                connection.execute(text(f"DROP INDEX checksum_{table}"))
        for name in ("arm", "control", "share", "version"):
            connection.execute(text(f"ALTER TABLE decisions DROP COLUMN {name}"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'v0003'"))
    upgraded = Store.open(store.database.url.render_as_string(hide_password=False))
    assert schema_version(upgraded.database) == REVISIONS[-1]
    assert upgraded.decisions.last(9) == [STORED_DECISION]
    drawn = replace(STORED_DECISION, id="drawn", arm="list", control="list", share=0.5, version="1")
    upgraded.decisions.add([drawn])
    assert upgraded.decisions.get("drawn") == drawn
    assert upgraded.database.integrity_problem() is None
    upgraded.close()


def test_a_job_that_both_the_daemon_and_accounting_tell_of_is_one_run(store: Store) -> None:
    placed = PlacedRun(
        "lab", "8", "bob", "completed", 10.0, 30.0, 90.0, 60.0, 8, decision="d8", workload="app"
    )
    accounted = Run("lab", "8", "bob", "completed", 10.0, 30.0, 90.0, 60.0, 8, name="solve.sh")
    for puts in ((0, 1), (1, 0)):
        for put in puts:
            if put:
                store.past_jobs.put([accounted])
            else:
                store.outcomes.put([placed])
        stored = store.outcomes.of_job("8")
        assert stored is not None
        assert (stored.decision, stored.workload, stored.name) == ("d8", "app", "solve.sh")
    (known,) = store.past_jobs.of_users("bob")
    assert known.decision == "d8"
    store.outcomes.put([PlacedRun("lab", "9", "bob", "failed", elapsed_s=0.0)])  # never started
    assert len(list(store.past_jobs.of_users("bob", followed=True))) == 1
