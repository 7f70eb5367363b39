"""A command line value that is a name of a registry: schedulers, objectives."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from berth.pilot.plugins import Registry


class Named(click.ParamType[str]):
    """Any registered name. Raises UsageError for another, naming the nearest.

    Help shows Berth's own names: other packages are looked at only when the value is used.
    """

    def __init__(self, registry: Registry[Any]) -> None:
        self.name = registry.kind
        self._registry = registry

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; what bears it is imported."""
        self._registry.load(value)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """As click shows a choice."""
        return f"[{'|'.join(self._registry.own())}|...]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Every name, of other packages too."""
        return [CompletionItem(n) for n in self._registry.names() if n.startswith(incomplete)]
