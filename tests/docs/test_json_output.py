"""Every command with a result prints it with --json, as docs/schemas says; tables as CSV, too."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from json_answers import ANSWERS, OF_COMMANDS
from json_outputs import Case, cases, printed, values_of
from json_schema import problems, schema_of, text_of
from written_schemas import FOLDER, not_as_documented, schema_named, wrong_answer

from berth.plugin.cli.command_line import berth

DOCS = FOLDER.parent
WITHOUT = {
    "ui": "serves until it is ended",
    "mig export": "writes a configuration of another tool",
    "site metrics": "writes Prometheus' own format",
    "site slurm filter-config": "writes the filter's configuration",
    "site flux filter-config": "writes the filter's configuration",
    "site flux filter-path": "prints one path, for the shell",
    "site flux mig-path": "prints one path, for the shell",
    "site slurm filter-path": "prints one path, for the shell",
    "pilot deliver": "a pilot job's own step: its lines are the job's log",
    "pilot usage": "an Epilog's step: the line that it leaves is JSON",
    "pilot link": "a calibration job's own step: the result is the file that it writes",
    "pilot node": "a calibration job's own step: the result is the file that it writes",
    "pilot ranks": "a pilot job's own step: the result is the Profile that it changes",
}
"""Commands without ``--json``, each with its reason."""
Made = tuple[Path, Mapping[str, Case]]


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join((*path, name)), command


LEAVES = dict(leaves(berth))


def json_of(command: click.Command) -> click.Parameter | None:
    return next((one for one in command.params if "--json" in one.opts), None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("json")
    return folder, cases(folder)


def test_every_command_has_it_or_a_reason_not_to() -> None:
    without = {name for name, command in LEAVES.items() if json_of(command) is None}
    assert without == set(WITHOUT)


def test_every_command_with_it_has_a_schema_that_is_listed() -> None:
    names = {path.name.removesuffix(".schema.json") for path in FOLDER.iterdir()}
    assert names == set(ANSWERS)
    wanted = [
        schema
        for name, one in LEAVES.items()
        if json_of(one)
        for schema in OF_COMMANDS.get(name, [name.replace(" ", "-")])
    ]
    assert set(wanted) <= names
    text = (DOCS / "json.md").read_text()
    assert [name for name in sorted(names) if f"(schemas/{name}.schema.json)" not in text] == []


def test_the_written_schemas_are_those_of_the_code() -> None:
    stale = [
        name
        for name in ANSWERS
        if (FOLDER / f"{name}.schema.json").read_text() != text_of(schema_named(name)) + "\n"
    ]
    assert stale == [], "make schemas writes them anew"


def wrong(made: Made, *, slow: bool) -> list[str]:
    folder, every = made
    return [
        each
        for name, case in every.items()
        if case.slow == slow
        for value in values_of(case, folder)
        for each in not_as_documented(name, value)
    ]


def test_what_is_printed_is_what_is_documented(made: Made) -> None:
    assert wrong(made, slow=False) == []


@pytest.mark.slow
def test_what_takes_long_prints_what_is_documented_too(made: Made) -> None:
    assert wrong(made, slow=True) == []


TABLES = (
    "jobs-decisions", "jobs-decisions-id", "jobs-outcomes", "jobs-outcomes-jobs", "jobs-waits",
    "mig-plan", "mig-recommend", "mig-show", "place", "predict-language-model", "predict-model",
    "predict-program", "predict-training", "replay", "replay-live", "site-platform-list",
    "train-bundle-show", "workload-list", "workload-model", "workload-show",
)  # fmt: skip


def test_their_tables_are_csv(made: Made) -> None:
    folder, every = made
    for name in TABLES:
        words = [word for word in every[name].words if word != "--json"]
        text = printed(every[name], folder, ["--csv", *words]).split("\n\n")[0]
        rows = list(csv.reader(io.StringIO(text)))
        assert len(rows) > 1, name
        assert len({len(row) for row in rows}) == 1, name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1}, []),
        ({"a": None}, []),
        ({"a": "x"}, ["$.a: str, not null or number"]),
        ({"a": True}, ["$.a: bool, not null or number"]),
        ({}, ["$.a: missing"]),
        ({"a": 1, "b": 2}, ["$.b: not documented"]),
        ([], ["$: list, not object"]),
    ],
)
def test_what_does_not_fit_is_found(value: object, said: list[str]) -> None:
    schema = schema_of({"a": float | None})
    assert list(problems(value, schema, schema)) == said


def test_a_test_that_prints_another_shape_fails() -> None:
    assert wrong_answer(["workload", "share", "x", "--json"], '{"workload": "x"}') == [
        "workload-share: $.shared_as: missing"
    ]
    assert wrong_answer(["workload", "share", "x"], '{"workload": "x"}') == []


def test_no_value_is_documented_as_null_alone() -> None:
    null = re.compile(r': \{"type": "null"\}')
    assert [path.name for path in FOLDER.iterdir() if null.search(path.read_text())] == []


def test_a_schema_names_its_draft_and_its_command() -> None:
    for name in ANSWERS:
        written = json.loads((FOLDER / f"{name}.schema.json").read_text())
        assert written["$schema"].startswith("https://json-schema.org/")
        assert written["title"].startswith("berth ")
