"""Every `berth ...` in docs, messages, help, units and packages names a command that exists."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from berth.plugin.cli.command_line import berth
from berth.plugin.cli.lazy import CommandWithMore
from lab.__main__ import lab

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "lab" / "published" / "README.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
LINE = re.compile(
    r"^\s*(?:\$ |# |sudo (?:-u \S+ )?)*(?:\S*/bin/)?((?:berth|python -m lab) [a-z].*)$"
)
PROSE = re.compile(r"`((?:berth|python -m lab) [a-z][^`]*)`")


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        fenced = False
        for line in page.read_text(encoding="utf-8").splitlines():
            fenced ^= line.startswith("```")
            match = LINE.match(line) if fenced or line[:1].isspace() else None
            texts = [match.group(1)] if match else PROSE.findall(line)
            found += [(page.name, text) for text in texts]
    return found


def words_of(text: str) -> list[str]:
    text = re.split(r"\s(?:#|\||>|<|&&|;)\s?|\s(?:──|->|…)|…", text)[0]
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


@pytest.mark.parametrize(("page", "text"), sorted(set(commands())))
def test_the_command_and_its_options_exist(page: str, text: str) -> None:
    words = words_of(text)
    command: click.Command = berth if words[0] == "berth" else lab
    words = words[1:] if words[0] == "berth" else words[3:]
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        context = click.Context(command)
        names = [name for name in words[0].split("|") if name]
        subcommands = [command.get_command(context, name) for name in names]
        if isinstance(command, CommandWithMore) and not any(subcommands):
            break  # its own argument
        assert all(subcommands), f"{page}: `{text}`: no command {words[0]}"
        command = subcommands[0] or command
        words = words[1:]
    if command.add_help_option is False:
        return  # a command that reads its options itself
    known = {option for parameter in command.params for option in parameter.opts}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    for word in words:
        if word == "--":
            break
        option = word.lstrip("[").rstrip("].,:").partition("=")[0]
        if option.startswith("--") and option not in {"--help", "--version"}:
            assert option in known, f"{page}: `{text}`: no option {option}"


NAMED = re.compile(r"(?<![\w-])(?:bin/)?berth((?: +[a-z][a-z-]*)+)(?![\w(@=])")
USED = re.compile(r"""(?:bin/|[`"]|\$\(|[;:,?] |^)berth [^`\n]*""", re.MULTILINE)
"""In units, scripts and templates, where `berth` is a user and a package, too."""
SHIPPED = [
    path
    for folder in ("deploy", "plugin", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix in {"", ".service", ".timer", ".yml", ".html", ".lua", ".sh"}
]
SOURCES = [
    path
    for room in ("pilot", "predictor", "policies", "plugin")
    for path in sorted((ROOT / room).rglob("*.py"))
]


def literals(path: Path) -> Iterator[str]:
    """The strings of a Python file, docstrings too; of an f-string its fixed parts."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def unknown(text: str) -> list[str]:
    """Commands that a text names and that do not exist, in words of one space."""
    found = []
    for match in NAMED.finditer(re.sub(r"\s*\n[ #-]*", " ", text)):
        command: click.Command = berth
        for word in match.group(1).split():
            if not isinstance(command, click.Group):
                break
            below = command.get_command(click.Context(command), word)
            if below is None:
                if not isinstance(command, CommandWithMore):
                    found.append(match.group(0))
                break
            command = below
    return found


@pytest.mark.parametrize("room", ["pilot", "predictor", "policies", "plugin"])
def test_messages_help_and_docstrings_name_commands_that_exist(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / room)
        for text in literals(path)
        for name in unknown(text)
    ]
    assert wrong == []


def test_units_packages_and_templates_name_commands_that_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SHIPPED
        for use in USED.findall(path.read_text(encoding="utf-8", errors="replace"))
        for name in unknown(use)
    ]
    assert wrong == []


def test_what_is_no_command_is_found() -> None:
    assert unknown("run: berth doctor") == ["berth doctor"]
    assert unknown("see berth jobs waiting, or berth place lu.json") == ["berth jobs waiting"]
    assert unknown("`berth site store upgrade`") == []


def test_the_page_of_commands_has_the_whole_tree() -> None:
    rows = re.findall(
        r"^\| `berth (\w+)` \|.*\| (.*) \|$",
        (ROOT / "docs" / "commands.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    context = click.Context(berth)
    tree = {}
    for name in berth.list_commands(context):
        command = berth.get_command(context, name)
        below = command.list_commands(context) if isinstance(command, click.Group) else []
        tree[name] = set(below)
    assert {name: set(re.findall(r"`(\w+)`", below)) for name, below in rows} == tree
