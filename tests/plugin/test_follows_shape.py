"""``--follows-shape``: which workloads may get other tasks and cores."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from toy_profiles import profile

from berth.pilot.documents import write_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.command_line import berth
from berth.plugin.store import Store
from berth.plugin.workloads.files import following_shape
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.workload import workload_of
from berth.predictor.families.slices.workload import SliceWorkload, WholeRun


def test_a_workload_is_added_as_one_that_follows_its_shape(tmp_path: Path) -> None:
    write_json(tmp_path / "app.json", profile())
    store = f"sqlite:///{tmp_path}/berth.db"
    for name, more in (("kept", ()), ("follows", ("--follows-shape",))):
        words = ["workload", "add", str(tmp_path / "app.json"), "--name", name, "--store", store]
        done = CliRunner().invoke(berth, [*words, *more])
        assert done.exit_code == 0, done.output
    opened = Store.reading(store)
    try:
        records = opened.forecasts_of(("kept", "follows"))
    finally:
        opened.close()
    follows = {
        name: Forecast.from_json(one.document).follows_shape for name, one in records.items()
    }
    assert follows == {"kept": False, "follows": True}


def test_a_kind_without_a_shape_is_refused_in_one_sentence() -> None:
    document = SliceWorkload(name="s", gpu="A100-40GB", points=(WholeRun(batch=8, step_s=0.05),))
    with pytest.raises(UsageError, match="is for programs; s is slices"):
        following_shape(workload_of(document))
