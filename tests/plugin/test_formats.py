"""--csv everywhere, tables that fit the terminal, NO_COLOR, and short output."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from ui_store import decision

from berth.plugin.cli.command_line import berth
from berth.plugin.report.parts import Column, Table, text_table
from berth.plugin.report.terminal import fitted, table_text
from berth.plugin.store import PlacedRun, Store


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "store.db")
    made = Store.open(path)
    evil = "=HYPERLINK(1)"
    made.decisions.add([decision(1), decision(2, user="bob", workload=evil)])
    made.outcomes.put([PlacedRun("demo", "77", "alice", "completed", elapsed_s=11.0)])
    made.close()
    return path


def run(*words: str) -> Result:
    return CliRunner().invoke(berth, list(words))


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        yield " ".join((*path, name)), command


def test_no_command_has_an_option_twice() -> None:
    for name, command in [*leaves(berth), *leaves(berth)]:
        names = [word for one in command.params for word in one.opts]
        assert len(names) == len(set(names)), name


@pytest.mark.parametrize(
    ("words", "header"),
    [
        (("jobs", "decisions"), "ID"),
        (("jobs", "decisions", decision(1).id), "CANDIDATE"),
        (("mig", "show", "--gpu", "A100-40GB"), "NAME"),
        (("site", "platform", "list"), "name"),
    ],
)
def test_tables_are_csv(store: str, words: tuple[str, ...], header: str) -> None:
    of_store = ("--store", store) if words[0] == "jobs" else ()
    done = run("--csv", *words, *of_store)
    assert done.exit_code == 0, (done.output, done.exception)
    found = rows(done.stdout)
    assert found[0][0].lower() == header.lower()
    assert len(found) > 1
    assert len({len(row) for row in found}) == 1


def test_users_words_are_no_formulas(store: str) -> None:
    found = rows(run("--csv", "jobs", "decisions", "--store", store).stdout)
    assert "'=HYPERLINK(1)" in found[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("jobs", "decisions", "--user", "nobody"), "no decisions yet"),
        (("jobs", "outcomes", "--days", "0"), "no job that was decided upon has ended"),
        (("jobs", "outcomes", "--days", "0", "--jobs"), "no job that was decided upon has ended"),
        (("workload", "list"), "no workloads yet"),
    ],
)
def test_an_empty_table_is_a_sentence_on_the_screen_and_a_header_in_csv(
    store: str, words: tuple[str, ...], sentence: str
) -> None:
    assert run(*words, "--store", store).stdout.startswith(sentence)
    done = run("--csv", *words, "--store", store)
    assert done.exit_code == 0, (done.output, done.exception)
    (header,) = rows(done.stdout)
    assert len(header) > 3


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "decisions"),
        ("jobs", "outcomes"),
        ("jobs", "gain"),
        ("jobs", "advise"),
        ("why", "77"),
        ("workload", "list"),
        ("workload", "show", "app"),
        ("workload", "remove", "app"),
        ("mig", "recommend", "app"),
        ("jobs", "learn"),
        ("jobs", "usage", "show", "77"),
        ("workload", "refresh"),
        ("workload", "share", "app"),
    ],
)
def test_a_command_that_only_reads_creates_no_store(words: tuple[str, ...], tmp_path: Path) -> None:
    absent = tmp_path / "nofile.db"
    done = run(*words, "--store", str(absent))
    assert done.exit_code != 0
    assert str(done.exception) == f"the store {absent} does not exist"
    assert not absent.exists()


def test_a_store_that_cannot_be_opened_is_said_in_place_of_csv(tmp_path: Path) -> None:
    failed = run("--csv", "jobs", "decisions", "--store", str(tmp_path))
    assert "no table" not in str(failed.exception)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = text_table("", ("NAME", "WHAT"), [("a" * 60, "b" * 50), ("c", "d")])
    whole = table_text(table)
    assert "a" * 60 in whole  # a pipe gets everything
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "")
    lines = table_text(table).split("\n")
    assert max(map(len, lines)) == 40
    assert "…" in lines[1]
    monkeypatch.delenv("NO_COLOR")
    assert "\033[1m" in table_text(table)
    assert "\033[" not in lines[0]
    assert os.environ["COLUMNS"] == "40"


def columns(count: int, *brief: int) -> list[Column[object]]:
    return [Column(f"C{n}", f"c{n}", str, in_brief=n in brief) for n in range(count)]


def test_ten_columns_fit_a_terminal() -> None:
    places, widths = fitted(columns(10), [16, *[30] * 9], 80)
    assert places == list(range(10))
    assert sum(widths) + 18 == 80
    assert widths[0] == 16  # the key of the line stays whole
    assert fitted(columns(2), [10, 10], 100) == ([0, 1], [10, 10])


def test_columns_that_are_not_in_a_brief_table_are_left_out_first() -> None:
    assert fitted(columns(4, 0, 2), [10] * 4, 40) == ([0, 2], [10, 10])
    assert fitted(columns(3), [9, 9, 9], 5) == ([0], [9])


def test_what_is_left_out_is_said_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "")
    lines = table_text(Table("", columns(4, 0), ["a" * 9])).split("\n")
    assert lines[-1] == "(left out: c1, c2, c3; --csv has all)"
