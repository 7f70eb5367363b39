"""Power and carbon figures of the site file: watts per GPU and core, grams of CO2 by hour."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from berth.pilot.documents import read_text
from berth.pilot.errors import DocumentError
from berth.pilot.platform import Platform
from berth.plugin.site.candidate_tables import CandidateTable
from berth.plugin.site.document import EnergyTable
from berth.policies.carbon import HOUR_S, Intensity
from berth.predictor.footprint.energy import IDLE_SHARE

COLUMN = "g_per_kwh"
MOST_HOURS = 10 * 366 * 24


def intensity(table: EnergyTable, path: Path) -> Intensity | None:
    """Return the carbon intensity in ``[energy]`` of the site file; None: the file sets none.

    Raises DocumentError.
    """
    if table.carbon_g_per_kwh is not None and table.carbon_file is not None:
        raise DocumentError(
            path, "is what carbon_g_per_kwh says; write one", key="energy.carbon_file"
        )
    if table.carbon_g_per_kwh is not None:
        return Intensity((table.carbon_g_per_kwh,))
    if table.carbon_file is None:
        return None
    source = path.absolute().parent / table.carbon_file
    return read_intensity(read_text(source), source)


def read_intensity(text: str, source: Path) -> Intensity:
    """Return the carbon intensity from CSV text: a time (ISO 8601; UTC without a zone) and g CO2
    per kWh in each line.

    The first line names the columns. The value is in column ``g_per_kwh``, or in the column of
    Electricity Maps' exports (life-cycle emissions before direct ones). Raises DocumentError naming
    the line.
    """
    rows = _rows(text, source)
    _, header = next(rows, (0, []))
    column = _column(header, source)
    hours: list[tuple[int, float]] = []
    for number, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        where = f"line {number}"
        if len(row) <= column:
            raise DocumentError(source, f"has {len(row)} columns", key=where)
        hours.append((_hour(row[0], source, where), _grams(row[column], source, where)))
        if len(hours) > 1 and hours[-1][0] != hours[-2][0] + HOUR_S:
            raise DocumentError(
                source, "is not one hour after the line before", key=where,
                hint="one line for each hour, in order and without gaps",
            )  # fmt: skip
        if len(hours) > MOST_HOURS:
            raise DocumentError(source, f"has more than {MOST_HOURS} hours")
    if not hours:
        raise DocumentError(source, "has no hours")
    return Intensity(tuple(grams for _, grams in hours), hours[0][0])


def powers(
    table: CandidateTable, platform: Platform, cores: int, energy: EnergyTable
) -> dict[str, float | None]:
    """Return the mean watts per GPU and per core under load: the candidate's, else its platform's.

    From a platform: idle power plus ``utilisation`` times the difference between full and idle
    power.
    """
    own = {"power_per_gpu_w": table.power_per_gpu_w, "power_per_core_w": table.power_per_core_w}
    load_w = platform.power_w
    if load_w is None:
        return own
    idle_w = IDLE_SHARE * load_w if platform.idle_power_w is None else platform.idle_power_w
    mean_w = min(idle_w, load_w) + max(0.0, load_w - idle_w) * energy.utilisation
    key, each = ("power_per_gpu_w", 1) if platform.is_gpu else ("power_per_core_w", cores)
    if own[key] is None:
        own[key] = mean_w / each
    return own


def _rows(text: str, source: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers and cells. Raises DocumentError where the text is not CSV."""
    rows = csv.reader(io.StringIO(text))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise DocumentError(source, f"is not CSV: {error}", key=f"line {rows.line_num}") from None


def _column(header: list[str], source: Path) -> int:
    names = [name.strip() for name in header]
    wanted = (
        [i for i, name in enumerate(names) if name == COLUMN],
        [i for i, name in enumerate(names) if "gCO" in name and "ife cycle" in name],
        [i for i, name in enumerate(names) if "gCO" in name],
    )
    column = next((columns[0] for columns in wanted if columns and columns[0] > 0), None)
    if column is None:
        raise DocumentError(
            source, f"has no column {COLUMN!r}", key="line 1", hint=f"begin it with: time,{COLUMN}"
        )
    return column


def _hour(text: str, source: Path, where: str) -> int:
    try:
        time = datetime.fromisoformat(text.strip())
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise DocumentError(source, f"{text[:40]!r} is not a time", key=where) from None
    if seconds % HOUR_S:
        raise DocumentError(source, f"{text[:40]!r} is not a full hour", key=where)
    return int(seconds)


def _grams(text: str, source: Path, where: str) -> float:
    try:
        grams = float(text)
    except ValueError:
        grams = math.nan
    if not 0 <= grams < math.inf:
        raise DocumentError(source, f"{text[:40]!r} is not a carbon intensity in g/kWh", key=where)
    return grams
