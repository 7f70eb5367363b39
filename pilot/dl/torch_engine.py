"""Load and run a PyTorch module, on a CPU or a CUDA GPU, for inference or a training step.

Precision: fp32 has TensorFloat-32 off, tf32 has it on. For inference, fp16 and bf16 store weights
and activations in that type; for training, they use autocast over fp32 weights (fp16 with gradient
scaling). A training step zeroes the gradients, runs forward with the mean of squares as loss, runs
backward, and updates the weights. Times on a GPU are measured by CUDA events around one run.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable
from typing import Any

from berth.pilot.dl.document import (
    ComputeDevice,
    ComputePrecision,
    MeasureOrder,
    ModelHardware,
    Task,
)
from berth.pilot.dl.meters import Meter, NoMeter, NvmlMeter, memory_bytes, mig_profile, rapl
from berth.pilot.dl.onnx_engine import Refused
from berth.pilot.host import cpu_model, gpu_driver
from berth.pilot.profile import Measurement, Quality

_HALF = {ComputePrecision.FP16: "float16", ComputePrecision.BF16: "bfloat16"}


def load_torch() -> Any:
    """Return the imported torch module. Raises Refused where PyTorch is not installed."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise Refused("PyTorch is not installed here (the extra `deep`)") from None


class TorchSubject:
    """A PyTorch module with inputs on its device, ready to run or train."""

    random_weights = True

    def __init__(self, torch: Any, order: MeasureOrder, module: Any, inputs: Any) -> None:
        setting = order.setting
        self._torch = torch
        self._cuda = setting.device is ComputeDevice.CUDA
        torch.set_num_threads(setting.threads)
        torch.backends.cuda.matmul.allow_tf32 = setting.precision is ComputePrecision.TF32
        torch.backends.cudnn.allow_tf32 = setting.precision is ComputePrecision.TF32
        device = torch.device(setting.device.value)
        training = setting.task is Task.TRAINING
        half = getattr(torch, _HALF.get(setting.precision, ""), None)
        module = module.to(device)
        inputs = tuple(x.to(device) for x in inputs)
        if half is not None and not training:
            module = module.to(half)
            inputs = tuple(x.to(half) if x.is_floating_point() else x for x in inputs)
        module.train(training)
        self._module, self._inputs = module, inputs
        self._step: Callable[[], None] = self._forward
        if training:
            self._step = _training_step(torch, module, inputs, setting.optimizer or "sgd", half)

    def run(self) -> float:
        if not self._cuda:
            began = time.perf_counter()
            self._step()
            return time.perf_counter() - began
        begin = self._torch.cuda.Event(enable_timing=True)
        end = self._torch.cuda.Event(enable_timing=True)
        begin.record()
        self._step()
        end.record()
        self._torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    def burst(self, count: int) -> None:
        for _ in range(count):
            self._step()
        if self._cuda:
            self._torch.cuda.synchronize()

    def before_repeats(self) -> None:
        if self._cuda:
            self._torch.cuda.reset_peak_memory_stats()

    def measurements(self) -> dict[str, Measurement]:
        """Return GPU memory in bytes: the allocator's peaks since the warm-up, and all in use.

        Empty on a CPU.
        """
        if not self._cuda:
            return {}
        cuda = self._torch.cuda
        free, whole = cuda.mem_get_info()
        return {
            "gpu_allocated_bytes": _measured(cuda.max_memory_allocated(), "tensors, peak"),
            "gpu_reserved_bytes": _measured(cuda.max_memory_reserved(), "allocator, peak"),
            "gpu_in_use_bytes": _measured(
                whole - free, "whole GPU or slice, CUDA context and others included, at the end"
            ),
        }

    def machine(self) -> ModelHardware:
        """Return the CPU or GPU, its memory and the software versions that the model runs on."""
        torch = self._torch
        if not self._cuda:
            return ModelHardware(
                device=cpu_model(),
                memory_bytes=memory_bytes(),
                framework_version=torch.__version__,
            )
        gpu = torch.cuda.get_device_properties(0)
        return ModelHardware(
            device=gpu.name, memory_bytes=gpu.total_memory,
            multiprocessors=gpu.multi_processor_count,
            mig=mig_profile(gpu.name), framework_version=torch.__version__, cuda=torch.version.cuda,
            driver=gpu_driver(),
        )  # fmt: skip

    def _forward(self) -> None:
        with self._torch.inference_mode():
            self._module(*self._inputs)


def subject(order: MeasureOrder) -> TorchSubject:
    """Return the model of a measurement request, ready to run. Raises Refused with the reason."""
    torch = load_torch()
    setting = order.setting
    if setting.device is ComputeDevice.CUDA and not torch.cuda.is_available():
        raise Refused("PyTorch sees no CUDA GPU here")
    if setting.device is ComputeDevice.CPU and setting.precision is ComputePrecision.TF32:
        raise Refused("tf32 is of NVIDIA GPUs; a CPU computes in fp32 or bf16")
    torch.manual_seed(0)
    return TorchSubject(torch, order, *_from_factory(torch, order))


def meter(order: MeasureOrder) -> Meter:
    """Return the energy meter of the device that a measurement request names."""
    if order.setting.device is ComputeDevice.CPU:
        return rapl()
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return NoMeter("nvml", "the Python module pynvml (nvidia-ml-py) is not installed")
    torch = load_torch()
    gpu = torch.cuda.get_device_properties(0)
    if mig_profile(gpu.name):
        return NoMeter("nvml", "NVML tells the power of whole GPUs only, not of a MIG slice")
    try:
        nvml.nvmlInit()
        return NvmlMeter(nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{gpu.uuid}"))
    except (nvml.NVMLError, AttributeError) as error:
        return NoMeter("nvml", f"NVML: {error}")


def _training_step(
    torch: Any, module: Any, inputs: Any, optimizer: str, half: Any
) -> Callable[[], None]:
    learnt = [p for p in module.parameters() if p.requires_grad]
    if not learnt:
        raise Refused("the model has no parameters to train")
    rule = (
        torch.optim.AdamW(learnt, lr=1e-6)
        if optimizer == "adamw"
        else torch.optim.SGD(learnt, lr=1e-6, momentum=0.9)
    )
    kind = inputs[0].device.type
    scaler = torch.amp.GradScaler(kind, enabled=half is not None and half == torch.float16)

    def step() -> None:
        rule.zero_grad(set_to_none=True)
        context = torch.autocast(kind, dtype=half) if half is not None else contextlib.nullcontext()
        with context:
            out = module(*inputs)
            first = out[0] if isinstance(out, tuple | list) else out
            loss = first.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(rule)
        scaler.update()

    return step


def _from_factory(torch: Any, order: MeasureOrder) -> tuple[Any, Any]:
    package, _, function = order.model.partition(":")
    try:
        module = getattr(importlib.import_module(package), function)()
    except (ImportError, AttributeError) as error:
        raise Refused(f"{order.model}: {error}") from None
    if not isinstance(module, torch.nn.Module):
        raise Refused(f"{order.model} gives no torch.nn.Module")
    shape = (order.setting.batch, *(order.input_shape or ()))
    return module, (torch.randn(shape),)


def _measured(value: float, note: str) -> Measurement:
    return Measurement(value=value, quality=Quality.MEASURED, source="torch", note=note)
