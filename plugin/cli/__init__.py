"""The command line: ``tree`` lists the commands; each one's module is imported when it runs."""

from __future__ import annotations

import atexit
import gc
import os
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
    # Imports make many objects and no cycles. Searching them, at the end too, would take 60 ms.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    # Looking for plugins, pydantic would read the metadata of every installed distribution.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from berth.plugin.cli.command_line import run  # noqa: PLC0415

    run(words)
