"""Load and run an ONNX model in onnxruntime, on a CPU or a CUDA GPU; missing weights are random.

A GPU needs onnxruntime's CUDA build (onnxruntime-gpu). Inputs and outputs stay in the GPU's memory,
and the time of a run ends when the GPU has done it.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from berth.pilot.dl.document import (
    ComputeDevice,
    ComputePrecision,
    MeasureOrder,
    ModelHardware,
    Setting,
    Task,
)
from berth.pilot.dl.meters import Meter, NoMeter, NvmlMeter, memory_bytes, mig_profile, rapl
from berth.pilot.dl.weights import RandomValues, check_cap, external_tensors
from berth.pilot.host import cpu_model, gpu_driver
from berth.pilot.profile import Measurement, Quality

_TYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "int64": "int64",
    "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8", "uint16": "uint16",
    "uint32": "uint32", "uint64": "uint64", "bool": "bool",
}  # fmt: skip


class Refused(Exception):
    """Raised where a framework cannot run a model with a setting; the message says why."""


class OnnxSubject:
    """An ONNX model in an onnxruntime session with random inputs, ready to run."""

    def __init__(self, order: MeasureOrder) -> None:
        setting = order.setting
        if setting.task is not Task.INFERENCE:
            raise Refused(
                "an ONNX file does inference only; for training give package.module:function"
            )
        providers = _providers(setting)
        self._gpu = _NvmlGpu() if setting.device is ComputeDevice.CUDA else None
        path = Path(order.model)
        stubs = external_tensors(path)
        check_cap(stubs, order.memory_bytes)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setting.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        maker = RandomValues()
        weights = [onnxruntime.OrtValue.ortvalue_from_numpy(maker.weight(stub)) for stub in stubs]
        if stubs:
            options.add_external_initializers([stub.name for stub in stubs], weights)
        # The session gets bytes, not a path, so it cannot open other files beside the model's.
        self._session = onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=providers
        )
        del weights
        if self._gpu and CUDA_PROVIDER not in self._session.get_providers():
            raise Refused("onnxruntime cannot use the GPU: its CUDA or cuDNN is missing")
        self.random_weights = bool(stubs)
        self._binding = self._session.io_binding()
        for place, port in enumerate(self._session.get_inputs()):
            values = maker.input(*_described(port, first=place == 0, order=order))
            value = onnxruntime.OrtValue.ortvalue_from_numpy(values, setting.device.value)
            self._binding.bind_ortvalue_input(port.name, value)
        for port in self._session.get_outputs():
            self._binding.bind_output(port.name, setting.device.value)

    def run(self) -> float:
        began = time.perf_counter()
        self.burst(1)
        return time.perf_counter() - began

    def burst(self, count: int) -> None:
        for _ in range(count):
            self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def before_repeats(self) -> None:
        """Do nothing: ``HostMemory`` measures the peak memory."""

    def machine(self) -> ModelHardware:
        """Return the CPU or GPU, its memory and the versions that the model runs on."""
        if self._gpu:
            return self._gpu.machine()
        return ModelHardware(
            device=cpu_model(),
            memory_bytes=memory_bytes(),
            framework_version=onnxruntime.__version__,
        )

    def measurements(self) -> dict[str, Measurement]:
        """Return the memory in use on the whole GPU or slice, in bytes; empty on a CPU."""
        if not self._gpu:
            return {}
        note = "whole GPU or slice, CUDA context and others included, at the end"
        used = Measurement(
            value=self._gpu.memory().used, quality=Quality.MEASURED, source="nvml", note=note
        )
        return {"gpu_in_use_bytes": used}

    def meter(self) -> Meter:
        """Return the energy meter of the CPU or GPU that the model runs on."""
        return self._gpu.meter() if self._gpu else rapl()


CUDA_PROVIDER = "CUDAExecutionProvider"


def _providers(setting: Setting) -> list[Any]:
    if setting.device is ComputeDevice.CPU:
        return ["CPUExecutionProvider"]
    if CUDA_PROVIDER not in onnxruntime.get_available_providers():
        raise Refused("onnxruntime has no CUDA here: install onnxruntime-gpu in its place")
    return [(CUDA_PROVIDER, {"use_tf32": int(setting.precision is ComputePrecision.TF32)})]


class _NvmlGpu:
    """The first GPU or MIG slice that CUDA shows this process, as NVML knows it."""

    def __init__(self) -> None:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as NVML numbers GPUs
        try:
            self._nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            raise Refused("the Python module pynvml (nvidia-ml-py) is not installed") from None
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        try:
            self._nvml.nvmlInit()
            self._handle = (
                self._nvml.nvmlDeviceGetHandleByIndex(int(shown))
                if shown.isdigit()
                else self._nvml.nvmlDeviceGetHandleByUUID(shown)
            )
            self._name: str = self._nvml.nvmlDeviceGetName(self._handle)
        except self._nvml.NVMLError as error:
            raise Refused(f"NVML sees no GPU here: {error}") from None

    def memory(self) -> Any:
        return self._nvml.nvmlDeviceGetMemoryInfo(self._handle)

    def machine(self) -> ModelHardware:
        return ModelHardware(
            device=self._name, memory_bytes=self.memory().total, mig=mig_profile(self._name),
            framework_version=onnxruntime.__version__, driver=gpu_driver(),
        )  # fmt: skip

    def meter(self) -> Meter:
        if mig_profile(self._name):
            return NoMeter("nvml", "NVML tells the power of whole GPUs only, not of a MIG slice")
        return NvmlMeter(self._nvml, self._handle)


def _described(port: Any, *, first: bool, order: MeasureOrder) -> tuple[str, list[int]]:
    match = re.fullmatch(r"tensor\((\w+)\)", port.type)
    dtype = _TYPES.get(match.group(1)) if match else None
    if dtype is None:
        raise Refused(f"input {port.name!r} is {port.type}, which is not made up here")
    setting = order.setting
    computed = setting.precision
    if setting.device is ComputeDevice.CUDA and computed is ComputePrecision.TF32:
        computed = ComputePrecision.FP32
    if first and computed is not _PRECISIONS.get(dtype, computed):
        raise Refused(f"onnxruntime runs the file as it is: {dtype}, not {setting.precision.value}")
    return dtype, bound(port.name, port.shape, setting.batch, setting.sizes)


_PRECISIONS = {"float32": ComputePrecision.FP32, "float16": ComputePrecision.FP16}


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
