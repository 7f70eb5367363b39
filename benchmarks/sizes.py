"""Lines and files of Python by room, options, keys of the site file and words of the pages, beside
the sizes that Berth keeps to: ``make sizes``.

Exits with 1 where one is over its bar, so that a room that grows is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from berth.plugin.cli.command_line import berth
from berth.plugin.site.reference import keys_text

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("pilot", "predictor", "policies", "plugin")
BARS = {"product": 109_250, "lab": 20_100, "tests": 85_050}
"""Lines, at most: what stood last, so that they only fall (goals: 95,000, 16,000 and 70,000)."""
BAR_FILES = 695
"""Files of the four rooms of the product, at most."""
COMMON = {"--json", "--site", "--store"}
"""Options that mean the same wherever a command has them."""
BARS_OF_USERS = {"options": 436, "options, common ones once": 310, "site keys": 99, "words": 55_150}
"""What a user can meet, at most: what stood last (goals: 350 options, 80 keys, 45,000 words)."""


def size(folder: str) -> tuple[int, int]:
    """Return how many lines of Python a folder has, and in how many files."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return sum(len(path.read_bytes().splitlines()) for path in files), len(files)


def options_of(command: click.Command) -> Iterator[str]:
    """Yield the first name of each option of a command and of those below it."""
    yield from (p.opts[0] for p in command.params if isinstance(p, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            yield from () if below is None else options_of(below)


def of_users() -> dict[str, int]:
    """Return how many options, keys of the site file and words of the pages there are."""
    options = list(options_of(berth))
    common = sum(name in COMMON for name in options)
    keys = sum(line.startswith("| `") for line in keys_text().splitlines())
    words = sum(len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md"))
    numbers = (len(options), len(options) - common + len(COMMON), keys, words)
    return dict(zip(BARS_OF_USERS, numbers, strict=True))


def main() -> int:
    sizes = {room: size(room) for room in (*PRODUCT, "lab", "tests", "benchmarks")}
    product = tuple(map(sum, zip(*(sizes[room] for room in PRODUCT), strict=True)))
    rows = [*((room, *sizes[room]) for room in PRODUCT), ("product", *product)]
    rows += [(room, *sizes[room]) for room in ("lab", "tests", "benchmarks")]
    over = False
    print(f"{'':<12}{'lines':>8}{'files':>7}  bar")
    for name, lines, files in rows:
        bars = [f"{BARS[name]:,} lines"] if name in BARS else []
        over_now = name in BARS and lines > BARS[name]
        if name == "product":
            bars.append(f"{BAR_FILES} files")
            over_now = over_now or files > BAR_FILES
        over = over or over_now
        verdict = f"{', '.join(bars)}: {'over' if over_now else 'kept'}" if bars else ""
        print(f"{name:<12}{lines:>8,}{files:>7,}  {verdict}".rstrip())
    print()
    for name, number in of_users().items():
        over = over or number > BARS_OF_USERS[name]
        verdict = "over" if number > BARS_OF_USERS[name] else "kept"
        print(f"{name:<28}{number:>8,}  {BARS_OF_USERS[name]:,}: {verdict}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
