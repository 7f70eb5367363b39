"""A picture is whole or it is not there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from berth.plugin.pictures.figure import save


class Drawn:
    """A figure that writes what it is told, then runs out of room."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.options: dict[str, object] = {}

    def savefig(self, stream: object, **options: object) -> None:
        self.options = options
        stream.write(b"<?xml")  # type: ignore[attr-defined]
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("before", [None, b"older"])
def test_a_full_disk_leaves_no_empty_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    path = tmp_path / "why.svg"
    if before is not None:
        path.write_bytes(before)

    def full(_self: Path, _target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        save(Drawn(), path)
    assert (path.read_bytes() if path.exists() else None) == before
    assert len(list(tmp_path.iterdir())) == (before is not None)


def test_a_drawing_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="fonts"):
        save(Drawn(OSError("no fonts")), tmp_path / "why.svg")
    assert list(tmp_path.iterdir()) == []


def test_the_ending_says_the_format_and_an_svg_has_no_date(tmp_path: Path) -> None:
    figure = Drawn()
    save(figure, tmp_path / "new" / "why.SVG", dpi=150)
    assert figure.options == {"format": "svg", "metadata": {"Date": None}, "dpi": 150}
    assert (tmp_path / "new" / "why.SVG").read_bytes() == b"<?xml"
