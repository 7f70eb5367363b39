"""The schemas in ``docs/schemas``: written by ``make schemas``, held against printed JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from json_answers import ANSWERS, OF_COMMANDS, Same
from json_schema import Schema, problems, schema_of, text_of

from berth.plugin.cli.command_line import berth

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


@functools.cache
def schema_named(name: str) -> Schema:
    """The schema of an answer, as the code says."""
    head = {"$schema": DRAFT, "title": f"berth {name.replace('-', ' ')} --json"}
    return head | schema_of(ANSWERS[name])


def not_as_documented(name: str, value: Any) -> list[str]:
    """What of a printed value is not as its schema says."""
    kind = ANSWERS[name]
    schema = schema_named(kind.name if isinstance(kind, Same) else name)
    return [f"{name}: {each}" for each in problems(value, schema, schema)]


def command_of(words: Sequence[str]) -> tuple[str, ...]:
    """The command that these words call, such as ``jobs decisions``."""
    path: list[str] = []
    command: click.Command | None = berth
    for word in words:
        if not isinstance(command, click.Group):
            break
        below = command.get_command(click.Context(command), word)
        if below is None:
            break
        path.append(word)
        command = below
    return tuple(path)


def wrong_answer(words: Sequence[str], printed: str) -> list[str]:
    """What of a command's JSON is not as documented; nothing where it printed no JSON."""
    command = command_of(words)
    if "--json" not in words or not command:
        return []
    names = OF_COMMANDS.get(" ".join(command), ("-".join(command),))
    wrong = []
    for value in _values(printed):
        tried = [not_as_documented(name, value) for name in names if name in ANSWERS]
        if tried and all(tried):
            wrong += min(tried, key=len)
    return wrong


def _values(printed: str) -> Iterator[Any]:
    """The JSON values: of the whole text, else of each line that is one."""
    try:
        yield json.loads(printed)
        return
    except ValueError:
        pass
    for line in printed.splitlines():
        if line.startswith(("{", "[")):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def main() -> None:
    """Write all schemas anew."""
    for path in FOLDER.glob("*.schema.json"):
        path.unlink()
    for name in ANSWERS:
        (FOLDER / f"{name}.schema.json").write_text(text_of(schema_named(name)) + "\n")


if __name__ == "__main__":
    main()
