"""One definition of a column serves the screen, the page, CSV and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from ui_store import decision

from berth.plugin.cli.command_line import berth
from berth.plugin.report import of_decision
from berth.plugin.report.csv_tables import table_csv
from berth.plugin.report.html import html
from berth.plugin.report.of_job import job_report
from berth.plugin.report.parts import Column, Table, data_of, interval
from berth.plugin.store import Store

ROW = {"candidate": "gpu", "platform": "h200", "runtime_s": [1.0, 2.0, 3.0], "power_w": 350.0}


def test_a_new_column_of_a_jobs_report_is_one_line_and_comes_everywhere(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: Column = Column("Power", "power_w", lambda row: row.get("power_w"), "{:.0f} W".format)
    monkeypatch.setattr(of_decision, "CANDIDATES", (*of_decision.CANDIDATES, added))
    record = replace(decision(1), ranked=json.dumps([ROW]))
    store = Store.open(tmp_path / "store.db")
    store.decisions.add([record])
    asked = ["jobs", "decisions", record.id, "--store", store.name]

    def shown(*words: str) -> str:
        return CliRunner().invoke(berth, words, catch_exceptions=False).stdout

    screen, csv = shown(*asked), shown("--csv", *asked)
    assert "POWER" in screen
    assert "350 W" in screen
    assert csv.splitlines()[0].endswith(",power_w")
    assert csv.splitlines()[1].endswith(",350.0")
    page = html(job_report(of_decision.DecidedJob(record), None, pictures=False), made_by="test")
    assert "Power</th>" in page
    assert "350 W</td>" in page


def test_every_fact_of_a_decision_is_on_the_page_under_its_name() -> None:
    decided = of_decision.DecidedJob(decision(1))
    facts = of_decision.asked_and_answered(decided).facts
    page = html(job_report(decided, None, pictures=False), made_by="test")
    assert len(facts) >= 4
    for name, value in facts:
        assert f">{name}</th>" in page
        assert value.split(" (")[0] in page


def test_what_is_not_known_is_written_the_same_everywhere() -> None:
    columns = (Column("Seconds", "time_s", lambda row: row, "{:.1f} s".format),)
    table = Table("", columns, [1.5, None])
    assert table.rows == [["1.5 s"], ["-"]]
    assert table_csv(table).splitlines() == ["time_s", "1.5", '""']
    assert data_of(columns, None) == {"time_s": None}


def test_a_time_that_is_not_known_to_within_a_factor_of_100_is_not_shown() -> None:
    column = interval("TIME", "time_s", lambda ends: ends)
    times = [(1.0, 9.0, 901.0), (0.05, 9.0, 10.0), (1.0, 2.0, 3.0)]
    assert Table("", (column,), times).rows == [["not known"], ["not known"], ["2 s (1 s to 3 s)"]]


def test_a_list_is_one_cell_of_csv() -> None:
    table = Table("", (Column("Places", "places", lambda row: row, ", ".join),), [["cpu", "old"]])
    assert table_csv(table).splitlines() == ["places", '"cpu, old"']
