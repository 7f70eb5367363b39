"""Text of others as terminals may show it: names and reasons come from users, files and jobs."""

from __future__ import annotations


def printable(text: str, *, but: str = "") -> str:
    r"""Return text with the characters that a terminal acts on as escapes (``\x1b``, ``\n``).

    These are all that are not printable: control characters, line ends, marks that change the
    direction of writing. ``but``: characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in but else one.encode("unicode_escape").decode()
        for one in text
    )
