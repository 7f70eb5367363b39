"""The eight training programs that MISO measured, as skeletons.

Written from what they are: Keras' own examples and applications at the sizes that MISO's scripts
give (https://github.com/boringlee24/socc22-miso, ``mps/models``; TensorFlow 2.6, fp32). Dropouts
are written out as TensorFlow 2.6 runs them, since their masks are kept for the backward pass.
Lengths of data that no script names are those of the data sets: LJSpeech's longest clip (10.1 s,
1,391 frames), BBBP's mean molecule (24 atoms, 76 pairs with loops) and its largest (132 atoms).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.footprint.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its passes through networks in a step, and its optimiser's numbers a weight."""

    networks: tuple[tuple[Callable[[], tuple[Sketch, str]], int, int], ...]
    """(network, copies with own weights, passes through each)."""
    moments: int
    """Adam 2, RMSprop 1."""


def _dropout(s: Sketch, x: str) -> str:
    mask = s.node("RandomUniformLike", x)
    return s.node("Mul", s.node("Mul", x, s.scalar(1.1)), mask)


def _normed(s: Sketch, x: str, channels: int) -> str:
    return s.node("Relu", s.batch_norm(x, channels))


def resnet50() -> tuple[Sketch, str]:
    """Keras' ResNet50 on CIFAR-10."""
    s = Sketch()
    x = s.input(3, 32, 32)
    x = _normed(s, s.convolution(x, 3, 64, (7, 7), 2), 64)
    x = s.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inner = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(depth):
            stride = 2 if stage and not block else 1
            y = _normed(s, s.convolution(x, inner, width, (1, 1), stride), width)
            y = _normed(s, s.convolution(y, width, width, (3, 3)), width)
            y = s.batch_norm(s.convolution(y, width, 4 * width, (1, 1)), 4 * width)
            if not block:
                x = s.convolution(x, inner, 4 * width, (1, 1), stride)
                x = s.batch_norm(x, 4 * width)
            x, inner = s.node("Relu", s.node("Add", x, y)), 4 * width
    return s, s.dense(s.node("Flatten", x), inner, 10)


def mobilenet_v2() -> tuple[Sketch, str]:
    """Keras' MobileNetV2 on CIFAR-10."""
    s = Sketch()
    x = s.input(3, 32, 32)
    x = _normed(s, s.convolution(x, 3, 32, (3, 3), 2, bias=False), 32)
    inner = 32
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
             (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    for expansion, width, repeats, first in table:
        for block in range(repeats):
            wide, stride, y = inner * expansion, first if not block else 1, x
            if expansion > 1:
                y = _normed(s, s.convolution(y, inner, wide, (1, 1), bias=False), wide)
            y = s.convolution(y, wide, wide, (3, 3), stride, groups=wide, bias=False)
            y = s.convolution(_normed(s, y, wide), wide, width, (1, 1), bias=False)
            y = s.batch_norm(y, width)
            x = s.node("Add", x, y) if stride == 1 and inner == width else y
            inner = width
    x = _normed(s, s.convolution(x, inner, 1280, (1, 1), bias=False), 1280)
    return s, s.dense(s.node("Flatten", x), 1280, 10)


def _split(s: Sketch, x: str, heads: int, size: int, *order: int) -> str:
    return s.transpose(s.reshape(x, 0, 0, heads, size), *order)


def _attention(s: Sketch, x: str, width: int, heads: int, size: int, *, dropped: bool) -> str:
    q, k, v = (s.dense(x, width, heads * size) for _ in range(3))
    q = s.node("Mul", _split(s, q, heads, size, 0, 2, 1, 3), s.scalar(0.1))
    k = _split(s, k, heads, size, 0, 2, 3, 1)
    scores = s.node("Softmax", s.node("MatMul", q, k), axis=-1)
    if dropped:
        scores = _dropout(s, scores)
    made = s.node("MatMul", scores, _split(s, v, heads, size, 0, 2, 1, 3))
    made = s.reshape(s.transpose(made, 0, 2, 1, 3), 0, 0, heads * size)
    return s.dense(made, heads * size, width)


def _moments_norm(s: Sketch, x: str, width: int) -> str:
    """Layer normalisation by ``tf.nn.moments`` and ``tf.nn.batch_normalization``."""
    mean = s.node("ReduceMean", x, s.integers(-1))
    variance = s.node("ReduceMean", s.node("Sub", x, mean), s.integers(-1))
    scale = s.node("Mul", s.node("Sqrt", variance), s.weight(width))
    return s.node("Sub", s.node("Mul", x, scale), s.node("Mul", mean, scale))


def bert() -> tuple[Sketch, str]:
    """BERT-base of transformers 4.10, 512 tokens."""
    s, width = Sketch(), 768
    tokens = s.input(512, integers=True)
    x = s.node("Add", s.node("Gather", s.weight(28996, width), tokens), s.weight(512, width))
    x = _dropout(s, _moments_norm(s, x, width))
    for _ in range(12):
        y = _dropout(s, _attention(s, x, width, 12, 64, dropped=True))
        x = _moments_norm(s, s.node("Add", x, y), width)
        y = s.dense(x, width, 4 * width)
        bent = s.node("Add", s.node("Erf", s.node("Div", y, s.scalar(1.4))), s.scalar(1.0))
        y = s.node("Mul", s.node("Mul", y, s.scalar(0.5)), bent)
        y = _dropout(s, s.dense(y, 4 * width, width))
        x = _moments_norm(s, s.node("Add", x, y), width)
    return s, s.dense(s.node("ReduceMean", x, s.integers(1), keepdims=0), width, 2)


def time_series_transformer() -> tuple[Sketch, str]:
    """Keras' example for FordA: 500 steps of one feature, 4 heads of 256, 4 blocks."""
    s = Sketch()
    x = s.input(500, 1)
    for _ in range(4):
        y = _dropout(s, _attention(s, x, 1, 4, 256, dropped=True))
        x = s.node("Add", _moments_norm(s, y, 1), x)
        y = _dropout(s, s.node("Relu", s.dense(x, 1, 4)))
        x = s.node("Add", _moments_norm(s, s.dense(y, 4, 1), 1), x)
    x = s.node("ReduceMean", x, s.integers(-1), keepdims=0)
    return s, s.dense(s.node("Relu", s.dense(x, 500, 128)), 128, 2)


def text_convolutions() -> tuple[Sketch, str]:
    """Keras' example with GloVe vectors: 200 words, three convolutions."""
    s = Sketch()
    x = s.node("Gather", s.weight(20002, 100), s.input(200, integers=True))
    x, inner = s.transpose(x, 0, 2, 1), 100
    for block in range(3):
        x = s.node("Relu", s.convolution(x, inner, 128, (5,), same=False))
        inner = 128
        if block < 2:
            x = s.node("MaxPool", x, kernel_shape=[5], strides=[5])
    x = s.node("Flatten", s.node("GlobalMaxPool", x))
    return s, s.dense(s.node("Relu", s.dense(x, 128, 128)), 128, 20)


def deep_speech() -> tuple[Sketch, str]:
    """Keras' DeepSpeech2: two convolutions, five bidirectional GRUs of 512."""
    s, frames, units = Sketch(), 1391, 512
    x = s.input(1, frames, 193)
    x = _normed(s, s.convolution(x, 1, 32, (11, 41), (2, 2), bias=False), 32)
    x = _normed(s, s.convolution(x, 32, 32, (11, 21), (1, 2), bias=False), 32)
    x, inner = s.reshape(s.transpose(x, 0, 2, 1, 3), 0, 0, 32 * 49), 32 * 49
    for layer in range(5):
        ways = []
        for _ in range(2):
            y = s.transpose(x, 1, 0, 2)
            weights = [s.weight(1, 3 * units, inner), s.weight(1, 3 * units, units)]
            y = s.node("GRU", y, *weights, s.weight(1, 6 * units), hidden_size=units)
            ways.append(s.transpose(s.node("Squeeze", y, s.integers(1)), 1, 0, 2))
        x, inner = s.node("Concat", *ways, axis=-1), 2 * units
        if layer < 4:
            x = _dropout(s, x)
    x = _dropout(s, s.node("Relu", s.dense(x, inner, 2 * units)))
    return s, s.node("Softmax", s.dense(x, 2 * units, 32), axis=-1)


def molecules() -> tuple[Sketch, str]:
    """Keras' message-passing example on BBBP; see the module for the sizes of molecules."""
    s, units, atoms, pairs, most = Sketch(), 64, 24, 76, 132
    x, bonds = s.input(atoms, units), s.input(pairs, 7)
    neighbours = s.integers(*(n % atoms for n in range(pairs)))
    for _ in range(4):
        edges = s.dense(bonds, 7, units * units)
        edges = s.reshape(edges, 0, 0, units, units)
        near = s.node("Gather", x, neighbours, axis=1)
        near = s.node("MatMul", edges, s.reshape(near, 0, 0, units, 1))
        gates = s.dense(s.reshape(near, 0, pairs, units), units, 3 * units)
        gates = s.node("Sigmoid", s.node("Gather", gates, s.integers(*range(atoms)), axis=1))
        fresh = s.node("Gather", gates, s.integers(*range(units)), axis=2)
        x = s.node("Add", s.node("Mul", x, fresh), fresh)
    x = s.node("Gather", x, s.integers(*(n % atoms for n in range(most))), axis=1)
    y = s.node("Add", x, _attention(s, x, units, 8, units, dropped=False))
    x = _moments_norm(s, y, units)
    y = s.dense(s.node("Relu", s.dense(x, units, 512)), 512, units)
    x = _moments_norm(s, s.node("Add", x, y), units)
    x = s.node("ReduceMean", x, s.integers(1), keepdims=0)
    return s, s.dense(s.node("Relu", s.dense(x, units, 512)), 512, 1)


def _instance_norm(s: Sketch, x: str, channels: int) -> str:
    return s.node("InstanceNormalization", x, s.weight(channels), s.weight(channels))


def _reflected(s: Sketch, x: str, by: int) -> str:
    return s.node("Pad", x, s.integers(0, 0, by, by, 0, 0, by, by), mode="reflect")


def cycle_generator() -> tuple[Sketch, str]:
    """CycleGAN's generator with nine residual blocks, 256 pixels."""
    s = Sketch()
    x = _reflected(s, s.input(3, 256, 256), 3)
    x = s.convolution(x, 3, 64, (7, 7), bias=False, same=False)
    x, width = s.node("Relu", _instance_norm(s, x, 64)), 64
    for _ in range(2):
        x = s.convolution(x, width, 2 * width, (3, 3), 2, bias=False)
        width *= 2
        x = s.node("Relu", _instance_norm(s, x, width))
    for _ in range(9):
        y = x
        for place in range(2):
            y = s.convolution(_reflected(s, y, 1), width, width, (3, 3), bias=False, same=False)
            y = _instance_norm(s, y, width)
            y = s.node("Relu", y) if not place else y
        x = s.node("Add", x, y)
    for _ in range(2):
        weight = s.weight(width, width // 2, 4, 4)
        x = s.node("ConvTranspose", x, weight, strides=[2, 2], pads=[1, 1, 1, 1])
        width //= 2
        x = s.node("Relu", _instance_norm(s, x, width))
    x = s.convolution(_reflected(s, x, 3), width, 3, (7, 7), same=False)
    return s, s.node("Tanh", x)


def cycle_discriminator() -> tuple[Sketch, str]:
    """CycleGAN's discriminator."""
    s = Sketch()
    x = s.convolution(s.input(3, 256, 256), 3, 64, (4, 4), 2)
    x, width = s.node("LeakyRelu", x), 64
    for stride in (2, 2, 1):
        x = s.convolution(x, width, 2 * width, (4, 4), stride, bias=False)
        width *= 2
        x = s.node("LeakyRelu", _instance_norm(s, x, width))
    return s, s.convolution(x, width, 1, (4, 4))


PROGRAMS = {
    "bert": Program(((bert, 1, 1),), 2),
    "cyclegan": Program(((cycle_generator, 2, 3), (cycle_discriminator, 2, 2)), 2),
    "deepspeech2": Program(((deep_speech, 1, 1),), 2),
    "embedding": Program(((text_convolutions, 1, 1),), 1),
    "gnn": Program(((molecules, 1, 1),), 2),
    "mobilenet": Program(((mobilenet_v2, 1, 1),), 2),
    "resnet": Program(((resnet50, 1, 1),), 2),
    "transformer": Program(((time_series_transformer, 1, 1),), 2),
}
"""By the name that MISO's rows have."""
