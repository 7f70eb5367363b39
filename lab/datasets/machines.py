"""Mini-apps and BabelStream on the same platforms (University of Bristol).

What is taken of each platform is fixed here, before anything is predicted:

* the platform: its name without the site (``skl-swan``, ``skl-horizon`` and ``skl`` are one);
* a mini-app's time: the least of the validated runs over compilers and programming models;
* its rates: of each BabelStream kernel the greatest over configurations, of the large arrays
  (4.3 GB) where those were run: 268 MB fit into the caches of a Rome node.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.core.arrays import Floats
from lab.datasets import DataSet, locate

_SOURCE = "UoB-HPC, https://github.com/UoB-HPC/performance-portability"
APPS = DataSet(
    path="machines/apps_wallclock.csv",
    title="Wall time of CloverLeaf, TeaLeaf, neutral and miniFMM",
    source=_SOURCE,
    licence="MIT",
    sha256="3956d0afb5fdf628df9dfd1829ff415aa75c6427910124c5f5ddfd8df7e3361c",
)
STREAM = DataSet(
    path="machines/babelstream_all.csv",
    title="BabelStream rates",
    source=_SOURCE,
    licence="MIT",
    sha256="80455f7021192f23588bc6acc91666d733969392c90869bdc0c12bd01f895a59",
)
KERNELS = ("copy", "mul", "add", "triad", "dot")
_LARGE = "large-"


@dataclass(frozen=True, slots=True)
class Peak:
    """What a data sheet says of a node or card."""

    flops_f64: float
    flops_f32: float
    cache_bytes: float
    """Last level, of all sockets."""
    is_gpu: bool


def _peak(f64: float, f32: float, cache_mb: float, *, gpu: bool = False) -> Peak:
    return Peak(f64 * 1e12, f32 * 1e12, cache_mb * 2**20, gpu)


PEAKS = {
    "a64fx": _peak(2.76, 5.53, 32),
    "ampere": _peak(0.21, 0.42, 32),
    "bdw": _peak(1.55, 3.10, 110),
    "cxl": _peak(2.0, 4.0, 55),
    "graviton2": _peak(1.28, 2.56, 32),
    "gtx2080ti": _peak(0.37, 13.4, 5.5, gpu=True),
    "irispro580": _peak(0.28, 1.1, 8, gpu=True),
    "k20": _peak(1.18, 3.52, 1.25, gpu=True),
    "knl": _peak(2.66, 5.32, 32),
    "mi50": _peak(6.7, 13.4, 4, gpu=True),
    "naples": _peak(1.28, 2.56, 128),
    "p100": _peak(4.04, 8.08, 4, gpu=True),
    "power9": _peak(1.02, 2.04, 240),
    "radeonvii": _peak(3.5, 13.4, 4, gpu=True),
    "rome": _peak(4.6, 9.2, 512),
    "skl": _peak(3.76, 7.52, 77),
    "tx2": _peak(1.28, 2.56, 64),
    "v100": _peak(7.01, 14.02, 6, gpu=True),
}
"""FP64 of the data set's ``platform_spec.csv`` where it names the platform; the rest from the
makers' data sheets."""


@dataclass(frozen=True, slots=True)
class MiniApps:
    """Platforms that have a rate, a data sheet and at least one mini-app's time."""

    platforms: tuple[str, ...]
    rates: Floats
    """Platforms x ``KERNELS``, byte/s."""
    seconds: dict[str, Floats]
    """Mini-app -> one a platform; NaN: not run."""


@cache
def mini_apps() -> MiniApps:
    """Return both data sets joined. Raises ToolMissing or DocumentError, see ``locate``."""
    times: dict[str, dict[str, float]] = {}
    for line in _lines(APPS):
        if line["validated"] == "True":
            of = times.setdefault(line["app"], {})
            name, taken = _platform(line["platform"]), float(line["wall_s"])
            of[name] = min(taken, of.get(name, np.inf))
    small: dict[str, Floats] = {}
    large: dict[str, Floats] = {}
    for line in _lines(STREAM):
        into = large if line["platform"].startswith(_LARGE) else small
        name = _platform(line["platform"])
        found = np.array([float(line[f"{kernel}_mbytes_s"]) * 1e6 for kernel in KERNELS])
        into[name] = np.maximum(found, into.get(name, found))
    rates = {**small, **large}
    names = tuple(sorted({p for of in times.values() for p in of} & rates.keys() & PEAKS.keys()))
    return MiniApps(
        platforms=names,
        rates=np.array([rates[name] for name in names]),
        seconds={
            app: np.array([of.get(name, np.nan) for name in names])
            for app, of in sorted(times.items())
        },
    )


def _platform(name: str) -> str:
    return name.removeprefix(_LARGE).split("-")[0]


def _lines(data: DataSet) -> list[dict[str, str]]:
    with locate(data).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
