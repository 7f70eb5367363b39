"""A small VAE + DNN bundle of made-up programs, and a program that it predicts.

``NETWORK`` is committed, so that tests of schedulers need no PyTorch; ``trained`` makes it anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.pilot.profile import Profile

NETWORK = Path(__file__).with_name("small-network")
CPU, GPU = "quartz", "h100-80gb"


def piloted(name: str, work: float, far: float, platform: str, noise: float = 1.0) -> Profile:
    """``far``: bytes beyond the caches; a GPU runs it faster and has no counters."""
    gpu = platform == GPU
    seconds = 1e-2 + 2e-11 * work + 1e-11 * far if gpu else 1e-9 * work + 1e-10 * far
    seconds *= noise
    counted = {"instructions": work, "l1_load_misses": far / 32, "llc_load_misses": far / 64}
    program, _, size = name.rpartition("-")
    return Profile.model_validate(
        {
            "schema": "berth.profile/1",
            "name": name,
            "platform": platform,
            "workload": {"command": ["./" + program, size], "size": float(size)},
            "runs_on": {"targets": ["cpu", "cuda"]},
            "runtime": {"median_s": seconds, "spread_s": 0.01 * seconds, "repeats_s": [seconds]},
            "peak_memory_bytes": 1e6,
            "counters": {
                key: {"value": value, "quality": "measured", "source": "test"}
                for key, value in ({} if gpu else counted).items()
            },
            "provenance": {"created": "2026-01-01T00:00:00Z", "berth_version": "0"},
        }
    )


def networked() -> Profile:
    """Piloted on the CPU platform; in the range of what the network was trained on."""
    return piloted("networked-2", 2e11, 2e11, CPU)


def trained(folder: Path) -> Path:
    """The bundle, trained in ``folder`` in some ten seconds; needs the extra ``deep``."""
    from lab.published.vae.network import VaeDnn
    from lab.published.vae.vae_dnn import VaeFamily
    from lab.relative.measurements import site_input
    from lab.relative.train import train_bundle

    rng = np.random.default_rng(0)
    runs = folder / "runs"
    runs.mkdir(parents=True)
    for program in range(5):
        work, intensity = _rounded(10 ** rng.uniform(9.5, 11)), _rounded(rng.uniform(0.5, 2))
        for size in (1, 2, 3):
            name, amount = f"app{program}-{size}", work * 4**size
            for platform in (CPU, GPU):
                noise = _rounded(np.exp(rng.normal(0, 0.1)))
                one = piloted(name, amount, intensity * amount, platform, noise)
                text = json.dumps(one.model_dump(mode="json", by_alias=True))
                (runs / f"{platform}-{name}.json").write_text(text)
    site = site_input((runs,), CPU, None)
    assert site is not None
    small = VaeDnn(
        latent=3, hidden=(16,), dnn=(32, 32), calibration_epochs=20, vae_epochs=60, dnn_epochs=100
    )
    family = VaeFamily(settings=small, cpus=(CPU,), counted_on_cpu=True)
    train_bundle(replace(site, title="made-up runs"), folder / "network", 0, family)
    return folder / "network"


def _rounded(value: float) -> float:
    """To six digits: the last ones of powers differ from processor to processor."""
    return float(f"{value:.6g}")
