"""PyTorch runs the same graph as onnxruntime; a GPU is tested through stand-ins."""

from __future__ import annotations

import os
import types
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from small_models import attention, constant, convolutional, integers, model, tensor

from berth.pilot.dl import torch_engine
from berth.pilot.dl.document import Device, MeasureOrder, Precision, Setting, Source, Task
from berth.pilot.dl.onnx_engine import Refused, bound

SINGLE = {
    "LayerNormalization": {"extra": ["s8", "o8"]},
    "InstanceNormalization": {"extra": ["s3", "o3"]},
    "Gelu": {"approximate": "tanh"},
    "HardSigmoid": {"alpha": 0.3},
    "HardSwish": {},
    "Softmax": {"axis": 1},
    "Clip": {"extra": ["low", "high"]},
    "Div": {"extra": ["low"]},
    "MaxPool": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]},
    "AveragePool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    "ReduceMean": {"extra": ["axes"], "keepdims": 0},
    "ReduceL2": {"extra": ["axes"]},
    "Slice": {"extra": ["starts", "ends", "axes"]},
    "Gather": {"extra": ["index"], "axis": 2},
    "Pad": {"extra": ["pads"], "mode": "reflect"},
    "Transpose": {"perm": [0, 2, 3, 1]},
    "DepthToSpace": {"blocksize": 1},
    "Tile": {"extra": ["times"]},
    "Conv": {"extra": ["kernel"], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "ConvTranspose": {"extra": ["up"], "strides": [2, 2]},
    "Resize": {"extra": ["", "", "sizes"], "mode": "linear"},
}


def single(name: str):
    given = dict(SINGLE[name])
    extra = given.pop("extra", [])
    constants = [
        constant("s8", 8), constant("o8", 8), constant("s3", 3), constant("o3", 3),
        constant("low"), helper.make_tensor("high", 1, [], [1.5]),
        constant("kernel", 4, 3, 3, 3), constant("up", 3, 4, 2, 2),
        integers("axes", 2, 3), integers("starts", 1, 0), integers("ends", 7, 4),
        integers("index", 0, -1, 3), integers("pads", 0, 0, 1, 2, 0, 0, 2, 1),
        integers("times", 1, 2, 1, 1), integers("sizes", 2, 3, 12, 16),
    ]  # fmt: skip
    return model([helper.make_node(name, ["x", *extra], ["y"], **given)],
                 [c for c in constants if c.name in extra])  # fmt: skip


MODELS = {
    "convolutional": (convolutional(), {}),
    "attention": (attention(), {"sequence": 5}),
    **{name: (single(name), {}) for name in SINGLE},
}


@pytest.mark.parametrize("name", MODELS)
def test_torch_gives_what_onnxruntime_gives(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from berth.pilot.dl import torch_graph

    made, sizes = MODELS[name]
    made.ir_version = 10
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    loaded = torch_graph.load(torch, path, 2, sizes, 2**30)
    with torch.inference_mode():
        got = loaded.module(*loaded.inputs).numpy()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, {"x": loaded.inputs[0].numpy()})[0]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


def order(path: Path, **setting: object) -> MeasureOrder:
    return MeasureOrder(
        source=Source.ONNX, model=str(path), memory_bytes=2**30,
        setting=Setting(**{"batch": 2, "framework": "torch", **setting}),
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_a_training_step_moves_the_weights(
    tmp_path: Path, optimizer: str, precision: Precision
) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.onnx"
    path.write_bytes(convolutional().SerializeToString())
    subject = torch_engine.subject(
        order(path, task=Task.TRAINING, optimizer=optimizer, precision=precision)
    )
    before = [p.detach().clone() for p in subject._module.parameters()]
    assert subject.run() > 0
    subject.burst(2)
    after = list(subject._module.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_what_torch_lacks_here_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.onnx"
    path.write_bytes(convolutional().SerializeToString())
    if not torch.cuda.is_available():
        with pytest.raises(Refused, match="no CUDA GPU"):
            torch_engine.subject(order(path, device=Device.CUDA))
    with pytest.raises(Refused, match="tf32"):
        torch_engine.subject(order(path, precision=Precision.TF32))
    path.write_bytes(model([helper.make_node("Xor", ["x", "x"], ["y"])],
                           inputs=[tensor("x", 2)]).SerializeToString())  # fmt: skip
    with pytest.raises(Refused, match="Xor"):
        torch_engine.subject(order(path))


def test_a_factory_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    asked = order(tmp_path).model_copy(
        update={"source": Source.FACTORY, "model": "torch.nn:Flatten", "input_shape": (3, 4)}
    )
    assert torch_engine.subject(asked).run() > 0
    with pytest.raises(Refused, match=r"no torch\.nn\.Module"):
        torch_engine.subject(asked.model_copy(update={"model": "builtins:dict"}))


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
    asked = order(Path("x"), device=Device.CUDA, precision=Precision.TF32)
    subject = torch_engine.TorchSubject(torch, asked, FakeModule(), (), random_weights=True)
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
    assert torch_engine._mig("NVIDIA A100") == "unknown"
    monkeypatch.delitem(os.environ, "CUDA_VISIBLE_DEVICES")
    assert torch_engine._mig("NVIDIA A100") is None
