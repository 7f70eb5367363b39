"""A few numbers learnt of public measurements, in a JSON file beside the module that uses them."""

from __future__ import annotations

from pydantic import Field

from berth.pilot.documents import Document


class LearntFile(Document):
    """What every such file says of how it was made, and how its intervals hold."""

    command: str
    created: str
    sources: dict[str, str]
    """Data set -> SHA-256."""
    split: str
    groups: int = Field(ge=1)
    """Of rows that resemble each other."""
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Of the 90 % interval, in groups that nothing in the file is from."""
