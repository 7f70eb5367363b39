"""On a real Slurm: a workload of every kind is added, submitted with ``auto`` and placed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from every_kind import workloads
from real_daemon import FORECASTS, RealDaemon, real_daemon
from slurm_cluster import Cluster, wait_until

from berth.plugin.daemon.replies import parse_stamp
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.site import load_site
from berth.plugin.store import Store
from berth.plugin.workloads import add_workload
from berth.predictor.core.forecast import Forecast

GPU = "h100-80gb"
PLACES = {
    "program": "cpu",
    "inference": "gpu",
    "training": "gpu",
    "service": "gpu",
    "history": "gpu",
}
"""By workload: where it is predicted fastest of the places that it can run at."""


@pytest.fixture
def forecasts(slurm: Cluster) -> Iterator[dict[str, Forecast]]:
    """A daemon over a site with an H100, and what its store predicts of every kind."""
    with real_daemon(slurm) as daemon:
        made = _filled(daemon)
        wait_until(
            lambda: (
                (daemon.ask({"v": 1, "op": "stats"}) or {}).get("forecasts")
                == len(FORECASTS) + len(made)
            ),
            "the daemon has the new forecasts",
            20,
        )
        yield made


def _filled(daemon: RealDaemon) -> dict[str, Forecast]:
    text = daemon.site_file.read_text().replace("lassen-v100", GPU)
    text = text.replace('targets = ["cpu", "cuda"]', 'targets = ["cuda"]')
    text = text[: text.rindex("[[candidates]]")]
    text = text.replace("[daemon]", "[policy]\nallow_prior = true\n\n[daemon]")
    daemon.site_file.write_text(text)
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
        wanted = ("-n", "1", "-t", "600", "--mem=2G", f"--comment=berth:{name}")
        job = slurm.sbatch("-p", "auto", "--hold", *wanted)
        found = slurm.job(job.id)
        stamp = parse_stamp(found.get("AdminComment", ""))
        assert stamp is not None
        assert (name, stamp["code"], stamp.get("to")) == (name, "placed", place), job.message
        assert found["Partition"] == place
        assert ("gpu" in found.get("TresPerNode", "")) == (place == "gpu")
        assert re.search(r"is predicted fastest: .* \(.* to .*\)", job.message)
        assert (" per step" in job.message) == (name == "inference")
        source = forecasts[name].source_of(GPU if place == "gpu" else "quartz")
        assert source.partition(":")[0] in forecasts[name].families


def test_a_job_of_unknown_amount_keeps_its_time_limit(
    slurm: Cluster, forecasts: dict[str, Forecast]
) -> None:
    assert not forecasts["inference"].whole_job
    job = slurm.sbatch("-p", "auto", "--hold", "-t", "1", "--comment=berth:inference")
    assert slurm.job(job.id)["Partition"] == "gpu"
    assert slurm.job(job.id)["TimeLimit"] == "00:01:00"
