"""One workload of every kind, small enough to be predicted in a test by what Berth ships."""

from __future__ import annotations

from small_models import convolutional, graph_of
from small_network import networked
from toy_configs import LLAMA
from toy_profiles import profile

from berth.pilot.profile import RunsOn, Target
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.workload import Amount, Workload, workload_of
from berth.predictor.families.graph.workload import ModelWorkload, RunMode
from berth.predictor.families.history.workload import HistoryWorkload, PastRun
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.families.slices.workload import MemoryNeed, SliceWorkload, WholeRun
from berth.predictor.graphs.stored import to_lines

GIB = 2.0**30


def model(name: str, mode: RunMode, steps: float | None = None) -> ModelWorkload:
    """A convolutional network at batch 32."""
    return ModelWorkload(
        name=name,
        mode=mode,
        batch=32,
        amount=Amount(unit=WorkUnit.STEP, count=steps),
        graph=to_lines(graph_of(convolutional(blocks=8, channels=64), batch=32)),
    )


def workloads(cpu: str, gpu: str, gpu_model: str) -> dict[str, Workload]:
    """By name. The history ran on the platforms ``cpu`` and ``gpu``; ``gpu_model`` has slices.

    ``networked-2`` is a program that the bundle of ``small_network`` predicts, on its platforms.
    """
    documents = (
        profile(name="program"),
        networked(),
        model("inference", RunMode.INFERENCE),
        model("training", RunMode.TRAINING, steps=1000),
        LanguageModelWorkload(
            name="service", config=LLAMA, input_tokens=128, output_tokens=128,
            amount=Amount(unit=WorkUnit.REQUEST, count=100),
        ),
        SliceWorkload(
            name="sliced",
            gpu=gpu_model,
            points=(WholeRun(batch=8, step_s=0.02), WholeRun(batch=16, step_s=0.04)),
            batch=8,
            memory=MemoryNeed(low_bytes=2 * GIB, mid_bytes=3 * GIB, high_bytes=4 * GIB),
            runtime_s=600,
        ),
        HistoryWorkload(
            name="history",
            runs_on=RunsOn(targets=(Target.CPU, Target.CUDA)),
            runs=(
                *(PastRun(platform=cpu, cores=1, runtime_s=s, peak_host_bytes=GIB)
                  for s in (600.0, 630.0, 610.0)),
                *(PastRun(platform=gpu, cores=4, gpus=1, runtime_s=s, peak_gpu_bytes=GIB)
                  for s in (60.0, 66.0, 61.0)),
            ),
        ),
    )  # fmt: skip
    return {document.name: workload_of(document) for document in documents}
