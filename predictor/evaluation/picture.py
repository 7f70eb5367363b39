"""Writing a picture: whole or not at all, so that a full disk leaves no empty file behind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from berth.pilot.documents import write_bytes


def save(figure: Any, path: Path, **options: Any) -> None:
    """Write a matplotlib figure in the format of ``path``'s ending; an SVG carries no date.

    ``options``: of ``savefig``. Raises OSError where it cannot be written.
    """
    kind = path.suffix[1:].lower()
    made = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(made, format=kind, metadata=metadata, **options)
    write_bytes(path, made.getvalue())
