"""The registry, the run over families and splits, and what an interrupted run keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from site_profiles import write_site
from sklearn.linear_model import Ridge
from toy_rows import toy

from berth.pilot.errors import UsageError
from lab.ground.resume import Resume, resume_key
from lab.relative import evaluation as run
from lab.relative.cost_model_family import CostModelFamily
from lab.relative.experiment import report_of
from lab.relative.families import MeanSpeedup, Regression
from lab.relative.measurements import read_measurements
from lab.relative.orders import FOUR, order_figures

QUICK = (MeanSpeedup(),)


def test_every_fold_advances_the_bar() -> None:
    ticks: list[int] = []
    run.evaluate(toy(), QUICK, data="toy", seeds=[0, 1], advance=lambda: ticks.append(1))
    assert len(ticks) == run.steps(toy(), QUICK, [0, 1])


def test_one_application_is_refused_before_anything_is_fitted() -> None:
    with pytest.raises(UsageError, match="1 applications are fewer"):
        run.evaluate(toy(applications=1), QUICK, data="toy", seeds=[0])


def test_report_and_json_hold_every_family_and_split(tmp_path) -> None:
    found = run.evaluate(toy(), QUICK, data="toy", seeds=[0])
    report = report_of(found)
    report.write(tmp_path)
    text = (tmp_path / "evaluation.md").read_text(encoding="utf-8")
    for result in found.results:
        assert f"## {result.split}" in text
    assert all(len(row) == len(one.header) for one in report.sections for row in one.rows)
    data = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert len(data["results"]) == len(run.SPLITS)


def test_a_run_cut_short_in_a_split_goes_on_at_its_fold(tmp_path) -> None:
    ticks: list[int] = []

    def stop() -> None:
        ticks.append(1)
        if len(ticks) == 2:
            raise KeyboardInterrupt

    resume = Resume(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate(toy(), QUICK, data="toy", seeds=[0], resume=resume, advance=stop)
    fits: list[int] = []

    class Counted(MeanSpeedup):
        def fit(self, rows, seed):
            fits.append(1)
            return super().fit(rows, seed)

    run.evaluate(toy(), [Counted()], data="toy", seeds=[0], resume=resume)
    assert len(fits) == run.steps(toy(), QUICK, [0]) - 2


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path) -> None:
    resume = Resume(tmp_path)
    first = run.evaluate(toy(), QUICK, data="toy", seeds=[0], resume=resume)
    ticks: list[int] = []
    again = run.evaluate(
        toy(), QUICK, data="toy", seeds=[0], resume=resume, advance=lambda: ticks.append(1)
    )
    assert again == first
    assert not ticks


@pytest.mark.parametrize("changed", ["applications", "kernels", "sizes", "counters"])
def test_folds_resume_of_data_by_other_names_are_not_taken(changed) -> None:
    rows = toy()
    other = replace(rows, **{changed: tuple(f"{name}x" for name in getattr(rows, changed))})
    assert rows.digest() == toy().digest() != other.digest()


def test_folds_resume_of_other_kinds_of_platforms_are_not_taken() -> None:
    costs = CostModelFamily(kinds={"gpu": "nvidia"})
    assert resume_key(costs) != resume_key(CostModelFamily(kinds={"gpu": "amd"}))


def test_a_resume_file_cut_short_is_made_anew(tmp_path) -> None:
    resume = Resume(tmp_path)
    resume.array("key", lambda: np.arange(3.0))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert resume.array("key", lambda: np.ones(3)).tolist() == [1, 1, 1]


def test_the_order_of_four_needs_the_four() -> None:
    assert order_figures(toy(), toy().log_seconds) == {}


def test_a_perfect_prediction_has_every_order_right() -> None:
    rows = toy()
    four = type(rows)(
        counters=rows.counters,
        values=rows.values,
        platforms=FOUR,
        reference=FOUR[0],
        log_seconds=rows.log_seconds[:, [0, 1, 2, 0]] + [0, 0, 0, 3],
        applications=rows.applications,
        kernels=rows.kernels,
        sizes=rows.sizes,
    )
    assert order_figures(four, four.log_seconds)["order_of_four"] == 1.0
    assert order_figures(four, -four.log_seconds)["order_of_four"] == 0.0


def test_baselines_bear_missing_times_and_counters(tmp_path) -> None:
    ridge = Regression("ridge", "ridge", lambda _seed: Ridge(10.0))
    rows = read_measurements([write_site(tmp_path / "site")]).rows
    whole = ridge.fit(rows, 0).log_seconds(rows.knowing())
    rows.log_seconds[0, 1] = rows.values[3, 1] = np.nan
    found = ridge.fit(rows, 0).log_seconds(rows.knowing())
    assert np.isfinite(found).all()
    assert found == pytest.approx(whole, abs=1.0)
    assert found[:, 2] != pytest.approx(whole[:, 2])
    rows.log_seconds[:, 1] = np.nan
    assert ridge.fit(rows, 0).log_seconds(rows.knowing())[:, 1] == pytest.approx(rows.log_reference)
