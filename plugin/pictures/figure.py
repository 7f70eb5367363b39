"""Pictures: one style, and written whole or not at all (a full disk leaves no empty file behind).

matplotlib (the `train` extra) is imported when something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from berth.pilot.documents import write_bytes
from berth.pilot.errors import ToolMissing, UsageError

ENDINGS = (".svg", ".png", ".pdf")
INK = "#22303c"


def check_ending(path: Path) -> None:
    """Raises UsageError where the name does not end as a picture's."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path}: a picture ends in {', '.join(ENDINGS)}")


@contextmanager
def drawing(edges: str) -> Iterator[None]:
    """The style of all pictures, ``edges`` the colour of axes. ToolMissing without matplotlib."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - of the `train` extra
    except ImportError:
        raise ToolMissing(
            "matplotlib", needed_for="drawing a picture", hint="pip install 'berth[train]'"
        ) from None
    style: dict[Any, Any] = {
        "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.labelcolor": INK,
        "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": edges, "svg.fonttype": "path",
        "svg.hashsalt": "berth",
    }  # fmt: skip
    with mpl.rc_context(style):
        yield


def save(figure: Any, path: Path, **options: Any) -> None:
    """Write a matplotlib figure in the format of ``path``'s ending; an SVG carries no date.

    ``options``: of ``savefig``. Raises OSError where it cannot be written.
    """
    kind = path.suffix[1:].lower()
    made = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(made, format=kind, metadata=metadata, **options)
    write_bytes(path, made.getvalue())


def element(figure: Any) -> str:
    """A matplotlib figure as an SVG element of a page."""
    made = io.StringIO()
    figure.savefig(made, format="svg", metadata={"Date": None})
    text = made.getvalue()
    return text[text.index("<svg") :]
