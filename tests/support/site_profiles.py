"""A made-up site: programs piloted on one platform and timed on others, as files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SECONDS = {
    "here": lambda work, far: 1e-9 * work + 1e-10 * far,
    "big": lambda work, far: 5e-4 + 4e-10 * work + 1e-10 * far,
    "gpu": lambda work, far: 1e-2 + 2e-11 * work + 1e-11 * far,
}


def profile(name: str, work: float, far: float, platform: str = "here", noise: float = 1.0) -> dict:
    """As JSON; counters on the reference only."""
    taken = float(SECONDS[platform](work, far) * noise)
    counted = {"instructions": work, "l1_load_misses": far / 32, "llc_load_misses": far / 64}
    size = float(name.rpartition("-")[2])
    return {
        "schema": "berth.profile/1",
        "name": name,
        "platform": platform,
        "workload": {"command": ["./" + name.rpartition("-")[0], str(size)], "size": size},
        "runtime": {"median_s": taken, "spread_s": 0.01 * taken, "repeats_s": [taken]},
        "peak_memory_bytes": 1e6,
        "counters": {
            key: {"value": float(value), "quality": "measured", "source": "perf"}
            for key, value in (counted.items() if platform == "here" else ())
        },
        "provenance": {"created": "2026-01-01T00:00:00Z", "berth_version": "0"},
    }


def write_site(folder: Path, applications: int = 6, sizes: int = 2, seed: int = 0) -> Path:
    """``here.jsonl`` with counters; ``gpu-*.json`` and ``big.jsonl`` with times."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    piloted, big = [], []
    for app in range(applications):
        base, intensity = 10 ** rng.uniform(6, 10), rng.uniform(0.1, 4)
        for size in range(1, sizes + 1):
            name, work = f"app{app}-{size}", base * 4**size
            piloted.append(profile(name, work, intensity * work))
            there = profile(name, work, intensity * work, "gpu", np.exp(rng.normal(0, 0.1)))
            (folder / f"gpu-{name}.json").write_text(json.dumps(there), encoding="utf-8")
            noise = np.exp(rng.normal(0, 0.1))
            big.append(profile(name, work, intensity * work, "big", noise))
    for name, profiles in (("here", piloted), ("big", big)):
        lines = "\n".join(json.dumps(each) for each in profiles)
        (folder / f"{name}.jsonl").write_text(lines + "\n", encoding="utf-8")
    return folder
