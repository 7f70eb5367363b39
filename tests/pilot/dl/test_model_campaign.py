"""Campaigns of models: resumed after any kill, ordered, bounded in time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot.dl.campaign import ModelPlan, PlannedRun, points, read_runs, run_campaign
from berth.pilot.dl.document import (
    ComputeDevice,
    MeasureOrder,
    ModelFacts,
    ModelRun,
    ModelSource,
    Outcome,
    Protocol,
    Setting,
    Task,
)
from berth.pilot.documents import read_toml
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.host import provenance
from berth.pilot.profile import Runtime


class Machine:
    """Stands in for measuring: a batch beyond ``fits`` runs out of memory."""

    def __init__(self, fits: int = 1_000) -> None:
        self.fits = fits
        self.asked: list[tuple[str, int]] = []

    def __call__(self, order: MeasureOrder, facts: ModelFacts, platform: str) -> ModelRun:
        batch = order.setting.batch
        self.asked.append((facts.name, batch))
        fine = batch <= self.fits
        return ModelRun(
            platform=platform,
            model=facts,
            setting=order.setting,
            protocol=order.protocol,
            outcome=Outcome.OK if fine else Outcome.OUT_OF_MEMORY,
            reason=None if fine else "too large",
            latency=Runtime(median_s=1.0, spread_s=0.0, repeats_s=(1.0,)) if fine else None,
            provenance=provenance().model_copy(update={"user": ""}),
        )


def point(name: str, batch: int) -> PlannedRun:
    order = MeasureOrder(
        source=ModelSource.ONNX, model=name, setting=Setting(batch=batch), memory_bytes=2**30
    )
    return PlannedRun(order, lambda: ModelFacts(name=name, sha256=name), name, name)


POINTS = [point(name, batch) for name in ("a", "b") for batch in (1, 2, 4, 8)]


def test_what_the_file_has_is_not_measured_again(tmp_path: Path) -> None:
    file, machine = tmp_path / "runs.jsonl", Machine()
    first = run_campaign(POINTS[:5], file, "here", run=machine)
    second = run_campaign(POINTS, file, "here", run=machine)
    assert (first.measured, second.measured, second.known) == (5, 3, 5)
    assert len(machine.asked) == len(set(machine.asked)) == len(read_runs(file)) == 8


def test_smallest_batches_come_first(tmp_path: Path) -> None:
    machine = Machine()
    run_campaign(POINTS, tmp_path / "runs.jsonl", "here", run=machine)
    assert [batch for _, batch in machine.asked] == sorted(batch for _, batch in machine.asked)


def test_larger_batches_of_what_ran_out_of_memory_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    result = run_campaign(POINTS, file, "here", run=Machine(fits=2))
    assert (result.measured, result.too_large) == (6, 2)
    assert result.outcomes == {"ok": 4, "out-of-memory": 2}
    again = run_campaign(POINTS, file, "here", run=Machine(fits=2))
    assert (again.measured, again.known, again.too_large) == (0, 6, 2)


def test_cut_at_any_byte_a_file_goes_on(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    run_campaign(POINTS[:2], whole, "here", run=Machine())
    data = whole.read_bytes()
    for size in range(0, len(data), 97):
        file = tmp_path / "cut.jsonl"
        file.write_bytes(data[:size])
        result = run_campaign(POINTS[:2], file, "here", run=Machine())
        assert result.known == data[:size].count(b"\n")
        assert len(read_runs(file)) == 2


def test_no_measurement_is_begun_after_the_time_limit(tmp_path: Path) -> None:
    result = run_campaign(POINTS, tmp_path / "runs.jsonl", "here", time_limit_s=-1, run=Machine())
    assert (result.measured, result.unmade) == (0, 8)


def test_two_campaigns_do_not_write_one_file(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"

    def another(order: MeasureOrder, facts: ModelFacts, platform: str) -> ModelRun:
        run_campaign(POINTS, file, platform, run=Machine())
        raise AssertionError("two at once")

    with pytest.raises(UsageError, match="another campaign"):
        run_campaign(POINTS, file, "here", run=another)


def test_a_file_that_is_no_campaign_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"schema": "berth.profile/1"}\n')
    with pytest.raises(DocumentError, match="line 1"):
        run_campaign(POINTS, file, "here", run=Machine())
    assert file.read_text() == '{"schema": "berth.profile/1"}\n'


def plan_points(plan: ModelPlan, folder: Path) -> list[PlannedRun]:
    def facts(path: Path, digest: str, setting: Setting) -> ModelFacts:
        return ModelFacts(name=path.stem, sha256=digest)

    return points(plan, folder, Protocol(), facts, memory_bytes=2**30, run_limit_s=10)


def test_a_plan_is_every_combination(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.onnx").write_bytes(name.encode())
    file = tmp_path / "plan.toml"
    file.write_text(
        'schema = "berth.model-plan/1"\nmodels = ["*.onnx"]\nbatches = [1, 8]\n'
        'tasks = ["inference", "training"]\n'
    )
    found = plan_points(read_toml(file, ModelPlan), tmp_path)
    assert len({p.key for p in found}) == len(found) == 8
    assert {p.order.setting.framework for p in found} == {"onnxruntime"}
    assert all((p.order.setting.optimizer == "sgd") == (p.order.setting.task is Task.TRAINING)
               for p in found)  # fmt: skip


def test_a_factory_is_measured_by_torch(tmp_path: Path) -> None:
    plan = ModelPlan(models=("pack.age:net",), device=ComputeDevice.CUDA, input_shape=(3, 8, 8))
    (found,) = plan_points(plan, tmp_path)
    assert found.order.setting.framework == "torch"
    assert found.order.source is ModelSource.FACTORY
    assert found.name == "net"


@pytest.mark.parametrize("models", [("absent.onnx",), ("none/*.onnx",), ("pack.age:net",)])
def test_models_that_cannot_be_measured_are_named(models: tuple[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no model|shape of one input"):
        plan_points(ModelPlan(models=models), tmp_path)
