"""The slices that one job asked for, as a scheduler reports it."""

from __future__ import annotations

import re
from collections.abc import Collection

from pydantic import Field

from berth.pilot.documents import Document

_WILL_DO = re.compile(r"(?:^|\s)berth/1 .*?\bslices=([^\s]+)")


class Asked(Document):
    """Slices that one job asked for: any of these profiles."""

    job: str
    submit_s: float
    profiles: tuple[str, ...] = Field(min_length=1)
    count: int = Field(ge=1)
    ran: bool = True
    """False: it only waited when it was last seen."""


def stamped_profiles(stamp: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Those of ``profiles`` that would do, as the submit filter wrote it in the job's stamp."""
    found = _WILL_DO.search(stamp)
    return () if found is None else tuple(p for p in found[1].split(",") if p in profiles)
