"""PyTorch measures modules that a Python factory gives; a GPU is tested through stand-ins."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from berth.pilot.dl import meters, onnx_engine, torch_engine
from berth.pilot.dl.document import (
    ComputeDevice,
    ComputePrecision,
    MeasureOrder,
    ModelSource,
    Setting,
    Task,
)
from berth.pilot.dl.onnx_engine import Refused, bound


def order(model: str = "torch.nn:Flatten", **setting: object) -> MeasureOrder:
    return MeasureOrder(
        source=ModelSource.FACTORY, model=model, input_shape=(3, 8, 8), memory_bytes=2**30,
        setting=Setting(**{"batch": 2, "framework": "torch", **setting}),
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("precision", [ComputePrecision.FP32, ComputePrecision.BF16])
def test_a_training_step_moves_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, precision: ComputePrecision
) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "own_network.py").write_text(
        "from torch import nn\ndef net(): return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    subject = torch_engine.subject(
        order("own_network:net", task=Task.TRAINING, optimizer=optimizer, precision=precision)
    )
    before = [p.detach().clone() for p in subject._module.parameters()]
    assert subject.run() > 0
    subject.burst(2)
    after = list(subject._module.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_what_torch_lacks_here_is_refused() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        with pytest.raises(Refused, match="no CUDA GPU"):
            torch_engine.subject(order(device=ComputeDevice.CUDA))
    with pytest.raises(Refused, match="tf32"):
        torch_engine.subject(order(precision=ComputePrecision.TF32))
    with pytest.raises(Refused, match="no parameters to train"):
        torch_engine.subject(order(task=Task.TRAINING))


def test_a_factory_is_measured() -> None:
    pytest.importorskip("torch")
    assert torch_engine.subject(order()).run() > 0
    with pytest.raises(Refused, match=r"no torch\.nn\.Module"):
        torch_engine.subject(order("builtins:dict"))


@pytest.mark.parametrize(
    ("name", "mig"), [("NVIDIA H100", None), ("NVIDIA H100 MIG 1g.10gb", "1g.10gb")]
)
def test_nvml_names_the_gpu_that_an_onnx_file_runs_on(
    monkeypatch: pytest.MonkeyPatch, name: str, mig: str | None
) -> None:
    asked = []
    nvml = types.SimpleNamespace(
        NVMLError=OSError, nvmlInit=lambda: None, nvmlDeviceGetName=lambda _: name,
        nvmlDeviceGetHandleByIndex=asked.append, nvmlDeviceGetHandleByUUID=asked.append,
        nvmlDeviceGetMemoryInfo=lambda _: types.SimpleNamespace(total=8e10, used=1e9),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setitem(os.environ, "CUDA_DEVICE_ORDER", "")
    for shown, handle in (("3,1", 3), ("MIG-12", "MIG-12")):
        monkeypatch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", shown)
        gpu = onnx_engine._NvmlGpu()
        assert asked.pop() == handle
    assert gpu.machine().memory_bytes == 8e10
    assert gpu.machine().mig == (mig or "unknown")
    assert isinstance(gpu.meter(), meters.NoMeter)


def test_open_and_fixed_dimensions_are_bound() -> None:
    assert bound("x", ["N", 3, "side"], 4, {"side": 8}) == [4, 3, 8]
    with pytest.raises(Refused, match="--dim side=SIZE"):
        bound("x", ["N", "side"], 4, {})
    with pytest.raises(Refused, match="fixed at 1"):
        bound("x", [1, 3], 4, {})


class FakeTorch(types.SimpleNamespace):
    """As much of torch as a subject on a GPU asks for; every run takes 5 ms."""

    class _Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            pass

        def elapsed_time(self, other: object) -> float:
            return 5.0

    def __init__(self) -> None:
        self.reset = 0
        matmul, cudnn = types.SimpleNamespace(), types.SimpleNamespace()
        properties = types.SimpleNamespace(
            name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", total_memory=5e9, multi_processor_count=14
        )
        super().__init__(
            __version__="0", version=types.SimpleNamespace(cuda="13.0"),
            set_num_threads=lambda _: None, device=lambda name: name, bfloat16="bf16",
            backends=types.SimpleNamespace(
                cuda=types.SimpleNamespace(matmul=matmul), cudnn=cudnn
            ),
            inference_mode=lambda: types.SimpleNamespace(
                __enter__=lambda: None, __exit__=lambda *_: None
            ),
            cuda=types.SimpleNamespace(
                Event=self._Event, synchronize=lambda: None, reset_peak_memory_stats=self._reset,
                max_memory_allocated=lambda: 100, max_memory_reserved=lambda: 200,
                mem_get_info=lambda: (300, 1_000), get_device_properties=lambda _: properties,
            ),
        )  # fmt: skip

    def _reset(self) -> None:
        self.reset += 1


class FakeModule:
    def to(self, where: object) -> FakeModule:
        return self

    def train(self, training: bool) -> None:
        pass


def test_a_gpu_is_timed_by_events_and_its_allocator_is_asked() -> None:
    torch = FakeTorch()
    asked = order(device=ComputeDevice.CUDA, precision=ComputePrecision.TF32)
    subject = torch_engine.TorchSubject(torch, asked, FakeModule(), ())
    subject._step = lambda: None
    assert torch.backends.cuda.matmul.allow_tf32
    assert subject.run() == 0.005
    subject.before_repeats()
    assert torch.reset == 1
    told = {name: m.value for name, m in subject.measurements().items()}
    assert told == {"gpu_allocated_bytes": 100, "gpu_reserved_bytes": 200, "gpu_in_use_bytes": 700}
    machine = subject.machine()
    assert (machine.mig, machine.multiprocessors, machine.cuda) == ("1g.5gb", 14, "13.0")


def test_a_slice_by_its_environment_has_an_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", "MIG-1234")
    assert meters.mig_profile("NVIDIA A100") == "unknown"
    monkeypatch.delitem(os.environ, "CUDA_VISIBLE_DEVICES")
    assert meters.mig_profile("NVIDIA A100") is None
