"""Berth's frobnicator with a decision that fails as its settings say: for the live tests.

Loaded by Flux by its path. ``fault`` is read from the file beside the kill switch at every job.
"""

import importlib.util
import time
from pathlib import Path

FILTER = Path(__file__).parents[2] / "plugin" / "flux" / "frobnicator.py"
_spec = importlib.util.spec_from_file_location("berth_frobnicator", FILTER)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


def _hang():
    time.sleep(60)


def _print():
    print('{"errnum": 0, "data": {"version": 1}}')


FAULTS = {"hang": _hang, "print": _print}


class Filter(_module.Filter):
    """Spoils its copy of the jobspec, then fails."""

    def consider(self, spec, userid):
        fault = Path(self.settings["kill_switch"]).with_name("fault").read_text()
        spec["tasks"][0]["command"] = ["false"]
        spec["attributes"]["system"]["queue"] = "gpu"
        FAULTS[fault]()


class Frobnicator(_module.Frobnicator):
    """With the Filter above."""

    def make_filter(self, config):
        return Filter(config)
