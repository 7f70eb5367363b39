"""On a real Flux: a workload of every kind is added, submitted to ``auto`` and placed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from berth_daemon import wait_until
from every_kind import workloads
from flux_daemon import FORECASTS, flux_harbour
from flux_instance import ONLY_ON_FLUX, LiveFlux, frobnicators, live_flux
from small_network import NETWORK

from berth.plugin.flux.filter import FILTER_PATH
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.site import load_site
from berth.plugin.workloads.filing import add_workload

pytestmark = ONLY_ON_FLUX
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
"""By workload; the sliced one runs longer than jobs may on a whole GPU."""
SENTENCES = {"sliced": "is the smallest slice that will do"}
QUEUES = {"slice": "mig-1g.10gb"}


@pytest.fixture(scope="module")
def flux() -> Iterator[LiveFlux]:
    """An instance, a site with an H100 and slices, and workloads of every kind in its store."""
    with (
        flux_harbour() as harbour,
        live_flux(frobnicators(str(FILTER_PATH), **harbour.settings(deadline_ms=1000))) as instance,
    ):
        harbour.uri = instance.uri
        text = harbour.site_file.read_text().replace("h200-141gb", GPU)
        text = text.replace('max_time = "2h"', 'max_time = "5m"')
        bundles = f"[predictor]\nbundles = ['{NETWORK}']\n\n"
        text = text.replace("h100-mig-1g.10gb", "h100-80gb-mig-1g.10gb")
        harbour.site_file.write_text(text.replace("[daemon]", bundles + _POLICY, 1))
        site, store = load_site(harbour.site_file), harbour.store()
        forecaster, platforms = forecaster_for(site), platforms_for(site)
        for name, workload in workloads("rome-7742", GPU, "H100-80GB").items():
            if name in PLACES:
                add_workload(
                    store, workload, forecaster=forecaster, platforms=platforms, owner="test"
                )
        store.close()
        daemon = harbour.start()
        wait_until(lambda: daemon.stats()["forecasts"] == len(FORECASTS) + len(PLACES))
        yield instance
        instance.run("cancel", "--all", "--user=all")


_POLICY = """[policy]
allow_prior = true
max_interval_ratio = 1e9

[policy.weights]
wait = 0

[daemon]"""
"""By predicted time alone, whoever waits."""


@pytest.mark.parametrize("name", PLACES)
def test_it_lands_on_the_best_place_with_its_sentence(flux: LiveFlux, name: str) -> None:
    limit = "300m" if PLACES[name] == "slice" else "4m"
    words = ("--queue=auto", f"--setattr=user.berth.workload={name}", "-t", limit)
    job = flux.submit("--urgency=0", *words, "true")
    attributes = flux.jobspec(job)["attributes"]
    notes = attributes["user"]["berth"]
    assert f"code=placed to={PLACES[name]}" in notes["decision"]
    assert attributes["system"]["queue"] == QUEUES.get(PLACES[name], PLACES[name])
    sentence = SENTENCES.get(name, "is predicted fastest")
    assert re.search(rf"{sentence}: .* \(.* to .*\)", notes["message"])
