"""One measurement: whatever the model does in its child process is a label, never a failure."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from onnx import TensorProto, external_data_helper
from small_models import convolutional

from berth.pilot.dl.document import (
    ComputeDevice,
    ComputePrecision,
    MeasureOrder,
    ModelFacts,
    ModelRun,
    ModelSource,
    Outcome,
    Protocol,
    Setting,
    Task,
)
from berth.pilot.dl.measure import disturbed, environment_of, measure, runtime
from berth.pilot.dl.weights import external_tensors
from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError, UsageError

OLD_ENOUGH = 10
"""IR version that every onnxruntime in use reads."""
FACTS = ModelFacts(name="small", sha256="0")


@pytest.fixture(scope="module")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights lie in a file that does not exist."""
    made = convolutional()
    for weight in made.graph.initializer:
        if len(weight.dims) > 1:
            external_data_helper.set_external_data(weight, "absent.data")
            weight.ClearField("raw_data")
            weight.data_location = TensorProto.EXTERNAL
    made.ir_version = OLD_ENOUGH
    path = tmp_path_factory.mktemp("stripped") / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def order(path: Path | str, **more: object) -> MeasureOrder:
    setting = {
        key: more.pop(key)
        for key in ("batch", "task", "device", "precision", "framework", "sm_percentage")
        if key in more
    }
    given = {
        "source": ModelSource.ONNX,
        "model": str(path),
        "setting": Setting(**{"batch": 2, **setting}),
        "protocol": Protocol(warmup=1, repeats=4),
        "memory_bytes": 2**31,
        "time_limit_s": 60.0,
    }
    return MeasureOrder(**{**given, **more})


def stand_in(program: str) -> tuple[str, ...]:
    """A child that is this Python program; its answer goes to the descriptor ``n``."""
    return (sys.executable, "-c", f"import os, sys; n = int(sys.argv[1]); {program}")


def test_a_model_without_its_weights_is_timed_and_its_memory_followed(stripped: Path) -> None:
    run = measure(order(stripped), FACTS, "here")
    assert run.outcome is Outcome.OK, run.reason
    assert run.model.random_weights
    assert run.latency is not None
    assert len(run.latency.repeats_s) == 4
    assert run.processor_time is not None
    values = {name: m.value for name, m in run.measurements.items()}
    assert 0 < values["host_before_bytes"] < values["host_peak_bytes"]
    assert values["energy_j"] is None
    assert run.measurements["energy_j"].note == "not asked for"
    assert run.machine is not None
    assert run.disturbance is not None
    assert parse_json(run.model_dump_json(by_alias=True), ModelRun, source="here") == run


def test_weights_beyond_the_cap_are_out_of_memory(tmp_path: Path) -> None:
    made = convolutional()
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    made.ir_version = OLD_ENOUGH
    weight.dims[0] = 2**24
    weight.data_location = TensorProto.EXTERNAL
    path = tmp_path / "large.onnx"
    path.write_bytes(made.SerializeToString())
    run = measure(order(path, memory_bytes=2**29), FACTS, "here")
    assert run.outcome is Outcome.OUT_OF_MEMORY
    assert "weights alone are 1.7 GiB, 512.0 MiB are allowed" in (run.reason or "")
    assert run.latency is None


def test_activations_beyond_the_cap_are_out_of_memory(stripped: Path) -> None:
    run = measure(order(stripped, batch=2**18, memory_bytes=2**29), FACTS, "here")
    assert run.outcome is Outcome.OUT_OF_MEMORY, run.reason


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"task": Task.TRAINING}, "inference only"),
        ({"device": ComputeDevice.CUDA}, "no CUDA here"),
        ({"precision": ComputePrecision.FP16}, "float32, not fp16"),
    ],
)
def test_what_onnxruntime_does_not_do_is_refused(
    stripped: Path, more: dict[str, object], said: str
) -> None:
    run = measure(order(stripped, **more), FACTS, "here")
    assert run.outcome is Outcome.REFUSED
    assert said in (run.reason or "")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"\x0a\xff\xff\xff\xff\x0f")
    run = measure(order(path), FACTS, "here")
    assert run.outcome is Outcome.REFUSED
    assert "not an ONNX model" in (run.reason or "")


@pytest.mark.parametrize(
    ("program", "outcome", "said"),
    [
        ("os.kill(os.getpid(), 11)", Outcome.CRASHED, "SIGSEGV"),
        ("os.kill(os.getpid(), 9)", Outcome.CRASHED, "SIGKILL"),
        ("sys.exit(3)", Outcome.CRASHED, "exit status 3"),
        ("os.write(n, b'{half')", Outcome.CRASHED, "exit status 0"),
        ("os.write(n, b'nonsense\\n')", Outcome.CRASHED, "nonsense"),
    ],
)
def test_a_child_that_dies_is_a_label(program: str, outcome: Outcome, said: str) -> None:
    run = measure(order("model.onnx"), FACTS, "here", command=stand_in(program))
    assert run.outcome is outcome
    assert said in (run.reason or "")


def test_a_child_that_hangs_is_ended_in_time_with_all_that_it_started() -> None:
    program = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
    began = time.monotonic()
    run = measure(order("model.onnx", time_limit_s=0.5), FACTS, "here", command=stand_in(program))
    assert run.outcome is Outcome.TIMED_OUT
    assert time.monotonic() - began < 10


def test_a_share_of_the_gpu_needs_mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = order("model.onnx", sm_percentage=14)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    with pytest.raises(UsageError, match="CUDA MPS"):
        environment_of(asked)
    (tmp_path / "control").touch()
    assert environment_of(asked)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "14"


def test_only_left_out_weights_are_made_up(stripped: Path) -> None:
    stubs = {stub.name: stub for stub in external_tensors(stripped)}
    assert stubs["stem"].shape == (8, 3, 3, 3)
    assert "bias" not in stubs
    assert all(len(stub.shape) > 1 for stub in stubs.values())


@pytest.mark.parametrize("cut", [1, 7, 40, 200])
def test_a_truncated_file_gives_one_sentence(stripped: Path, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(stripped.read_bytes()[:-cut])
    with pytest.raises(DocumentError, match="truncated"):
        external_tensors(path)


def test_median_spread_and_disturbance() -> None:
    found = runtime([1.0, 2.0, 3.0, 4.0])
    assert found is not None
    assert (found.median_s, found.spread_s) == (2.5, 2.5)
    assert runtime([]) is None
    assert disturbed([1.0, 1.0, 2.0, 3.0], [1.0, 0.99, 1.0, 1.0]) == 0.5


def test_a_run_that_is_not_ok_says_why() -> None:
    run = measure(order("model.onnx"), FACTS, "here", command=stand_in("sys.exit(3)"))
    data = run.model_dump(mode="json", by_alias=True)
    with pytest.raises(DocumentError, match="reason"):
        parse_json(json.dumps(data | {"reason": None}), ModelRun, source="x")
