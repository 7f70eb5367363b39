"""Samples of each tool's shape, made for these tests (perf's were recorded)."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.importers.profiles import Wishes, chosen, distinct, profile
from berth.pilot.importers.reading import ImportOptions
from berth.pilot.profile import Profile
from berth.plugin.readers import read_measurements

SAMPLES = Path(__file__).parents[1] / "pilot" / "importers" / "samples"


def profiles_of(
    path: Path, options: ImportOptions | None = None, **wishes: object
) -> dict[str, Profile]:
    """Profiles of every region of the file, by region."""
    source, readings = read_measurements(path, None, options or ImportOptions())
    told = Wishes(platform="here", **wishes)  # type: ignore[arg-type]
    pairs = chosen(readings, told.regions)
    made = distinct([profile(r, region, source, told) for r, region in pairs])
    return {one.provenance.imported.region: one for one in made if one.provenance.imported}
