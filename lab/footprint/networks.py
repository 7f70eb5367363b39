"""Networks that stand in no data set: ConvNeXt-B (Liu et al., CVPR 2022)."""

from __future__ import annotations

from lab.footprint.sketch import Sketch

DEPTHS, WIDTHS = (3, 3, 27, 3), (128, 256, 512, 1024)


def convnext_base(image: int = 224, classes: int = 1000) -> tuple[Sketch, str]:
    """ConvNeXt-B as its authors and timm write it; the sketch and its output."""
    s = Sketch()
    x = s.input(3, image, image)
    x = s.convolution(x, 3, WIDTHS[0], (4, 4), 4)
    x = _channels_normed(s, x, WIDTHS[0])
    for stage, (depth, width) in enumerate(zip(DEPTHS, WIDTHS, strict=True)):
        if stage:
            x = _channels_normed(s, x, WIDTHS[stage - 1])
            x = s.convolution(x, WIDTHS[stage - 1], width, (2, 2), 2)
        for _ in range(depth):
            x = _block(s, x, width)
    x = s.node("ReduceMean", x, s.integers(2, 3), keepdims=0)
    x = s.layer_norm(x, WIDTHS[-1])
    return s, s.node("Gemm", x, s.weight(classes, WIDTHS[-1]), s.weight(classes), transB=1)


def _channels_normed(s: Sketch, x: str, width: int) -> str:
    x = s.layer_norm(s.transpose(x, 0, 2, 3, 1), width)
    return s.transpose(x, 0, 3, 1, 2)


def _block(s: Sketch, x: str, width: int) -> str:
    y = s.convolution(x, width, width, (7, 7), groups=width)
    y = s.layer_norm(s.transpose(y, 0, 2, 3, 1), width)
    y = s.node("Gelu", s.dense(y, width, 4 * width))
    y = s.node("Mul", s.dense(y, 4 * width, width), s.weight(width))
    return s.node("Add", x, s.transpose(y, 0, 3, 1, 2))
