"""The command line: ``tree`` lists the commands; each one's module is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``berth``. ``berth --help`` is printed without importing click, whose import would
    take most of the time."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words in (["--help"], ["-h"]):
        from berth.plugin.cli.tree import help_text  # noqa: PLC0415

        print(help_text())
        return
    from berth.plugin.cli.command_line import run  # noqa: PLC0415

    run(words)
