"""Predict the peak memory of a model graph with a 95 % interval.

First, tensors are counted from the graph: weights, gradients, the optimiser's state, the model's
input and activations. Activations are the peak in use for inference, and all that autograd saves
for training and for inference without ``torch.no_grad()`` (``recorded``). On a GPU these tensors go
through a simulated caching allocator. Then a fitted model (``runtimes``) adds the framework's own
memory. Training in fp16 or bf16 is autocast: weights, gradients and moments stay in fp32.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from berth.predictor.core.prediction import Interval
from berth.predictor.footprint.liveness import peak, reserved, tensors
from berth.predictor.footprint.runtimes import (
    DeviceMemory,
    FrameworkMemory,
    RuntimeName,
    runtimes,
)
from berth.predictor.footprint.saved import backward_peak, saved
from berth.predictor.footprint.storage import storage
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import native_numbers
from berth.predictor.graphs.values import BITS, FLOATS
from berth.predictor.hardware.device import Numbers

ADAM, MOMENTUM = 2, 1
"""Values that the optimiser (Adam; SGD with momentum) stores per weight."""
_SEGMENT = 2 * 2**20


class MemoryTask(StrEnum):
    """What a model is run for: inference, inference with autograd recording, or training."""

    INFERENCE = "inference"
    """A forward pass with ``torch.no_grad()`` or in a runtime without gradients."""
    RECORDED = "recorded"
    """A forward pass while autograd records, as ``model(x)`` does in PyTorch by default."""
    TRAINING = "training"


class MemoryFit(StrEnum):
    """Whether a platform's memory suffices for a predicted interval of the peak memory."""

    YES = "yes"
    NO = "no"
    MAY = "may"


@dataclass(frozen=True, slots=True)
class Need:
    """The memory counted from a model's graph, in bytes; equal on all GPUs and on all CPUs."""

    task: MemoryTask
    numbers: Numbers
    on_gpu: bool
    weights: int
    gradients: int
    moments: int
    inputs: int
    activations: int
    """Peak bytes of activations."""
    allocated: int
    """Total of the fields above; on a GPU, as the caching allocator reserves it."""
    least: int
    """Weights, inputs and peak activations if all pointwise operators work in place."""
    convolutions: int
    """Number of convolutions; ``products`` is the number of matrix products."""
    products: int
    unknown: int
    """Number of nodes whose operator the catalogue lacks; only their outputs are counted."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The predicted peak memory of a model run by a framework."""

    need: Need
    runtime: FrameworkMemory
    memory: Interval
    """95 % interval in bytes: device memory with the CUDA context on a GPU, else the process's."""

    @property
    def overhead_bytes(self) -> float:
        """Return the framework's own memory in bytes: the prediction minus the counted tensors."""
        return max(self.memory.mid - self.need.allocated, 0.0)

    def fits(self, memory_bytes: float) -> MemoryFit:
        """Return whether the predicted peak memory fits in ``memory_bytes``: YES, NO or MAY."""
        return fits(self.memory, memory_bytes)


def fits(need: Interval, memory_bytes: float) -> MemoryFit:
    """Return whether a predicted peak memory fits in ``memory_bytes``.

    YES where the interval's upper end fits, NO where its lower end does not, otherwise MAY.
    """
    if need.high <= memory_bytes:
        return MemoryFit.YES
    return MemoryFit.NO if need.low > memory_bytes else MemoryFit.MAY


def count(
    graph: ModelGraph,
    task: MemoryTask = MemoryTask.INFERENCE,
    *,
    on_gpu: bool = True,
    numbers: Numbers | None = None,
    moments: int = ADAM,
    strided: bool = True,
    fused: bool | None = None,
) -> Need:
    """Return the memory that a run of the graph at its batch size needs, in bytes.

    ``numbers``: the precision (default: the file's). ``moments``: values that the optimiser stores
    per weight. ``strided`` and ``fused``: the framework's memory layout (see ``storage``); the
    default is PyTorch's on a GPU and for training, onnxruntime's for inference on a CPU.
    """
    native = native_numbers(graph)
    numbers = numbers or native
    as_file = (not on_gpu and task is MemoryTask.INFERENCE) if fused is None else fused
    stored = storage(graph, bits=numbers.bits, strided=strided and not as_file, fused=as_file)
    kept_bits = max(32, numbers.bits) if task is MemoryTask.TRAINING else numbers.bits
    weights = graph.stored_bytes * kept_bits // native.bits
    parameters = graph.parameters * kept_bits // 8
    inputs = sum(_port_bytes(port.dtype, port.shape, numbers) for port in graph.inputs)
    forward = tensors(stored)
    least = weights + inputs + peak(tensors(stored, reuse=True))
    gradients = states = 0
    if task is MemoryTask.INFERENCE:
        alive, extra = forward, 0
        activations = peak(forward)
    else:
        recorded = saved(graph, stored)
        alive, extra = tensors(stored, lasting=recorded.nodes), recorded.extra_bytes
        activations = peak(alive) + extra
        if task is MemoryTask.TRAINING:
            gradients, states = parameters, moments * parameters
            activations = max(activations, backward_peak(stored, recorded))
            if numbers.bits < 32:
                weights += graph.stored_bytes * numbers.bits // native.bits
    allocated = weights + gradients + states + inputs + activations
    if on_gpu:
        through = max(reserved(alive) + extra, activations)
        allocated = _rounded(weights + gradients + states) + _rounded(inputs) + through
    family = stored.family
    return Need(
        task=task,
        numbers=numbers,
        on_gpu=on_gpu,
        weights=weights,
        gradients=gradients,
        moments=states,
        inputs=inputs,
        activations=activations,
        allocated=allocated,
        least=least,
        convolutions=sum(node_family is OpFamily.CONVOLUTION for node_family in family),
        products=sum(node_family is OpFamily.MATMUL for node_family in family),
        unknown=sum(graph.unknown.values()),
    )


def _port_bytes(dtype: int, shape: tuple[int, ...], numbers: Numbers) -> int:
    bits = numbers.bits if dtype in FLOATS else BITS.get(dtype, 32)
    for size in shape:
        bits *= size
    return -(-bits // 8)


def _rounded(size: int) -> int:
    return -(-size // _SEGMENT) * _SEGMENT


def runtime_of(task: MemoryTask, *, on_gpu: bool) -> FrameworkMemory:
    """Return the fitted memory model of the framework for a task on a GPU or on a CPU."""
    if task is MemoryTask.TRAINING:
        name = RuntimeName.GPU_TRAINING if on_gpu else RuntimeName.CPU_TRAINING
    else:
        name = RuntimeName.GPU_FORWARD if on_gpu else RuntimeName.CPU_FORWARD
    return runtimes()[name]


def footprint(need: Need, runtime: FrameworkMemory | None = None) -> Footprint:
    """Return the predicted peak memory: the counted tensors plus the framework's own memory."""
    runtime = runtime or runtime_of(need.task, on_gpu=need.on_gpu)
    return Footprint(need, runtime, memory_of(need, runtime))


def memory_of(need: Need, runtime: FrameworkMemory) -> Interval:
    """Return the 95 % interval of the peak memory in bytes, by the framework's memory model.

    The low end is at least ``need.least``.
    """
    memory = runtime.memory
    if isinstance(memory, DeviceMemory):
        parts = zip(_ends(memory.context_bytes.interval), _ends(memory.share.interval), strict=True)
        low, mid, high = (context + share * need.allocated for context, share in parts)
        low = max(low, float(need.least))
        mid = max(mid, low)
        return Interval(low, mid, max(high, mid))
    middle = (
        memory.base_bytes
        + memory.a_weight_byte * need.weights
        + memory.a_convolution * need.convolutions
        + memory.a_product * need.products
        + memory.an_activation_byte * (need.activations + need.inputs)
    )
    middle = max(middle, float(need.least))
    return Interval(
        min(max(middle * memory.share.low, float(need.least)), middle),
        middle,
        middle * max(memory.share.high, 1.0),
    )


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.mid, interval.high
