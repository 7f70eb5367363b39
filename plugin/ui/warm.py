"""What the first views would wait for is loaded while nobody waits: libraries, bundles, fonts."""

from __future__ import annotations

import logging
import threading

from flask import Flask

from berth.pilot.errors import BerthError
from berth.plugin.pictures.times import Row, ranked_times
from berth.plugin.report.of_workload import predicted, workload_report
from berth.plugin.ui.context import KEY, Context
from berth.plugin.workloads.files import WorkloadOptions

log = logging.getLogger("berth.ui")


def warm_up(app: Flask) -> threading.Thread:
    """Begin it beside the first answers; the thread that does it."""
    thread = threading.Thread(target=_warm, args=(app.extensions[KEY],), daemon=True)
    thread.start()
    return thread


def _warm(here: Context) -> None:
    from berth.plugin.workloads.described_models import Shape, described  # noqa: PLC0415 - numpy

    try:
        ranked_times([Row("warm", (1.0, 2.0, 3.0))])
        shape = Shape(layers=2, width=256)
        for purpose in ("inference", "training", "serve"):
            workload = described(shape, purpose, sequence=None, options=WorkloadOptions())
            workload_report(predicted(workload, here.forecaster(), here.site()))
    except BerthError as error:  # the views say it themselves
        log.info("warming up ended early: %s", error.message)
