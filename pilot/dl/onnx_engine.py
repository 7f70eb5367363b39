"""Load and run an ONNX model in onnxruntime on the CPU; missing weights are random."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from berth.pilot.dl.document import Device, Machine, MeasureOrder, Precision, Task
from berth.pilot.dl.meters import memory_bytes
from berth.pilot.dl.weights import Maker, check_cap, external_tensors
from berth.pilot.host import cpu_model

_TYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "int64": "int64",
    "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8", "uint16": "uint16",
    "uint32": "uint32", "uint64": "uint64", "bool": "bool",
}  # fmt: skip


class Refused(Exception):
    """Raised where a framework cannot run a model with a setting; the message says why."""


class OnnxSubject:
    """An ONNX model in an onnxruntime session with random inputs, ready to run on the CPU."""

    def __init__(self, order: MeasureOrder) -> None:
        setting = order.setting
        if setting.task is not Task.INFERENCE:
            raise Refused("onnxruntime does inference only; training needs torch")
        if setting.device is not Device.CPU:
            raise Refused("onnxruntime is used on the CPU only; a GPU needs torch")
        path = Path(order.model)
        stubs = external_tensors(path)
        check_cap(stubs, order.memory_bytes)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setting.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        maker = Maker()
        weights = [onnxruntime.OrtValue.ortvalue_from_numpy(maker.weight(stub)) for stub in stubs]
        if stubs:
            options.add_external_initializers([stub.name for stub in stubs], weights)
        # The session gets bytes, not a path, so it cannot open other files beside the model's.
        self._session = onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
        del weights
        self.random_weights = bool(stubs)
        self._feed = {
            port.name: maker.input(*_described(port, first=place == 0, order=order))
            for place, port in enumerate(self._session.get_inputs())
        }

    def run(self) -> float:
        began = time.perf_counter()
        self._session.run(None, self._feed)
        return time.perf_counter() - began

    def burst(self, count: int) -> None:
        for _ in range(count):
            self._session.run(None, self._feed)

    def before_repeats(self) -> None:
        """Do nothing: ``HostMemory`` measures the peak memory."""

    def machine(self) -> Machine:
        """Return the CPU, the memory and the framework version that the model runs on."""
        return Machine(
            device=cpu_model(),
            memory_bytes=memory_bytes(),
            framework_version=onnxruntime.__version__,
        )


def _described(port: Any, *, first: bool, order: MeasureOrder) -> tuple[str, list[int]]:
    match = re.fullmatch(r"tensor\((\w+)\)", port.type)
    dtype = _TYPES.get(match.group(1)) if match else None
    if dtype is None:
        raise Refused(f"input {port.name!r} is {port.type}, which is not made up here")
    setting = order.setting
    if first and setting.precision is not _PRECISIONS.get(dtype, setting.precision):
        raise Refused(f"onnxruntime runs the file as it is: {dtype}, not {setting.precision.value}")
    return dtype, bound(port.name, port.shape, setting.batch, setting.sizes)


_PRECISIONS = {"float32": Precision.FP32, "float16": Precision.FP16}


def bound(
    name: str, shape: Sequence[int | str | None], batch: int, sizes: dict[str, int]
) -> list[int]:
    """Return an input's shape with ``batch`` as open first dimension, others from ``sizes``.

    Raises Refused where a dimension stays open, or the model has another fixed batch.
    """
    bound_shape = []
    for place, size in enumerate(shape):
        if isinstance(size, int) and size >= 0:
            if place == 0 and size != batch:
                raise Refused(f"the model's batch is fixed at {size}; {batch} was asked for")
            bound_shape.append(size)
        elif isinstance(size, str) and size in sizes:
            bound_shape.append(sizes[size])
        elif place == 0:
            bound_shape.append(batch)
        else:
            raise Refused(f"dimension {size!r} of input {name!r} is open: give --dim {size}=SIZE")
    return bound_shape
