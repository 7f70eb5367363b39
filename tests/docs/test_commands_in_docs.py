"""Every `berth ...` and `python -m lab ...` line in the docs names commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from berth.plugin import cli
from lab.__main__ import lab

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
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
    command: click.Command = cli.berth if words[0] == "berth" else lab
    words = words[1:] if words[0] == "berth" else words[3:]
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        context = click.Context(command)
        names = [name for name in words[0].split("|") if name]
        subcommands = [command.get_command(context, name) for name in names]
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
