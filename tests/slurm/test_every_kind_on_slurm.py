"""On a real Slurm: a workload of every kind is added, submitted with ``auto`` and placed."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from every_kind import workloads
from real_daemon import FORECASTS, RealDaemon, real_daemon
from slurm_cluster import Cluster, wait_until
from small_network import NETWORK

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.site import load_site
from berth.plugin.store import Store
from berth.plugin.workloads.filing import add_workload
from berth.predictor.core.forecast import Forecast

GPU = "h100-80gb"
PLACES = {
    "program": "cpu",
    "inference": "gpu",
    "training": "gpu",
    "service": "gpu",
    "history": "gpu",
    "networked-2": "gpu",
    "sliced": "slice",
}
"""By workload: where it is predicted fastest of the places that it can run at; the sliced one runs
longer than jobs may on a whole GPU."""
SENTENCES = {"sliced": "is the smallest slice that will do"}
PARTITIONS = {"slice": "mig"}
SLICE = "h100-80gb-mig-1g.10gb"
PLATFORMS = {"cpu": "quartz", "gpu": GPU, "slice": SLICE}
POLICY = f"""
[policy]
allow_prior = true

[policy.weights]
wait = 0

[predictor]
bundles = ["{NETWORK}"]

"""
"""By predicted time alone, whoever waits."""
CANDIDATE = f"""
[[candidates]]
name = "slice"
platform = "{SLICE}"
partition = "mig"
gres = "gpu:1g.10gb"
nodes = 1
cores_per_node = 32
memory_per_node = "120G"
gpus_per_node = 7
instruction_sets = []
architecture = "x86_64"
targets = ["cuda"]
max_time = "12h"
default_time = "30m"
translation = {{ gpus = 1, cpus_per_gpu = 4 }}
"""


@pytest.fixture
def forecasts(slurm: Cluster) -> Iterator[dict[str, Forecast]]:
    """A daemon over a site with an H100, and what its store predicts of every kind."""
    with real_daemon(slurm) as daemon:
        made = _filled(daemon)
        wait_until(
            lambda: _asked(daemon, op="stats").get("forecasts") == len(FORECASTS) + len(made),
            "the daemon has the new forecasts",
            20,
        )
        # The first submission loads the filter; slices must be read after that, to the second.
        slurm.sbatch("-p", "auto", "--hold", "--comment=berth:off")
        probe = {"user": "root", "queue": "auto", "comment": "berth:sliced", "time_limit_s": 18000,
                 "scheduler_since_s": math.ceil(time.time())}  # fmt: skip
        wait_until(
            lambda: _asked(daemon, op="decide", scheduler="slurm", job=probe)["code"] == "placed",
            "the slices are read",
            20,
        )
        yield made


def _asked(daemon: RealDaemon, **ask: object) -> dict[str, Any]:
    return daemon.ask({"v": 1, **ask}) or {}


def _filled(daemon: RealDaemon) -> dict[str, Forecast]:
    text = daemon.site_file.read_text().replace("lassen-v100", GPU)
    text = text.replace('targets = ["cpu", "cuda"]', 'targets = ["cuda"]')
    text = text[: text.rindex("[[candidates]]")]
    text = text.replace('max_time = "1d"', 'max_time = "5m"').replace(
        'default_time = "1h"\ntranslation', 'default_time = "5m"\ntranslation'
    )
    daemon.site_file.write_text(text.replace("[daemon]", f"{POLICY}[daemon]") + CANDIDATE)
    site = load_site(daemon.site_file)
    store, forecaster = Store.open(f"sqlite:///{daemon.store_file}"), forecaster_for(site)
    found = {
        name: add_workload(
            store, workload, forecaster=forecaster, platforms=platforms_for(site), owner="test"
        )
        for name, workload in workloads("quartz", GPU, "H100-80GB").items()
        if name in PLACES
    }
    store.close()
    return found


def test_each_lands_on_the_best_place_with_its_sentence_and_its_sources(
    slurm: Cluster, forecasts: dict[str, Forecast]
) -> None:
    for name, place in PLACES.items():
        limit = "300" if place == "slice" else "4"
        wanted = ("-n", "1", "-t", limit, "--mem=2G", f"--comment=berth:{name}")
        job = slurm.sbatch("-p", "auto", "--hold", *wanted)
        found = slurm.job(job.id)
        stamp = parse_stamp(found.get("AdminComment", ""))
        assert stamp is not None
        if place == "cpu":  # the nodes of auto
            assert (name, stamp["code"], found["Partition"]) == (name, "stays", "auto")
            continue
        assert (name, stamp["code"], stamp.get("to")) == (name, "placed", place), job.message
        assert found["Partition"] == PARTITIONS.get(place, place)
        assert "gpu" in found.get("TresPerNode", "")
        sentence = SENTENCES.get(name, "is predicted fastest")
        assert re.search(rf"{sentence}: .* \(.* to .*\)", job.message)
        assert (" per step" in job.message) == (name == "inference")
        source = forecasts[name].source_of(PLATFORMS[place])
        assert source.partition(":")[0] in forecasts[name].families


@pytest.mark.slow
def test_a_network_of_the_site_s_own_bundles_answers(forecasts: dict[str, Forecast]) -> None:
    made = forecasts["networked-2"]
    assert "relative" in made.families
    assert made.source_of(GPU) == "relative: VAE + DNN"


@pytest.mark.slow
def test_a_job_of_unknown_amount_keeps_its_time_limit(
    slurm: Cluster, forecasts: dict[str, Forecast]
) -> None:
    assert not forecasts["inference"].whole_job
    job = slurm.sbatch("-p", "auto", "--hold", "-t", "1", "--comment=berth:inference")
    assert slurm.job(job.id)["Partition"] == "gpu"
    assert slurm.job(job.id)["TimeLimit"] == "00:01:00"
