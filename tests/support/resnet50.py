"""ResNet-50 (He et al. 2016) as an ONNX file of its full size, weights all zero."""

from __future__ import annotations

import math
from pathlib import Path

from onnx import NodeProto, TensorProto, helper

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
WIDER = 4
PARAMETERS = 25_557_032


class _Making:
    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, *shape: int) -> str:
        name = f"c{len(self.constants)}"
        raw = bytes(4 * math.prod(shape))
        made = helper.make_tensor(name, TensorProto.FLOAT, shape, raw, raw=True)
        self.constants.append(made)
        return name

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def convolution(
        self, read: str, sides: tuple[int, int], kernel: int, stride: int = 1, *, relu: bool = True
    ) -> str:
        wide, deep = sides
        found = self.node("Conv", read, self.constant(deep, wide, kernel, kernel),
                          strides=[stride] * 2, pads=[kernel // 2] * 4)  # fmt: skip
        found = self.node("BatchNormalization", found, *(self.constant(deep) for _ in range(4)))
        return self.node("Relu", found) if relu else found


def resnet50() -> bytes:
    """About 102 MB; input ``x`` [N, 3, 224, 224]."""
    made = _Making()
    here = made.convolution("x", (3, 64), 7, 2)
    here = made.node("MaxPool", here, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    wide = 64
    for stage, (blocks, width) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inner = made.convolution(here, (wide, width), 1)
            inner = made.convolution(inner, (width, width), 3, stride)
            inner = made.convolution(inner, (width, WIDER * width), 1, relu=False)
            if not block:
                here = made.convolution(here, (wide, WIDER * width), 1, stride, relu=False)
            here = made.node("Relu", made.node("Add", inner, here))
            wide = WIDER * width
    here = made.node("Flatten", made.node("GlobalAveragePool", here))
    head, bias = made.constant(1000, wide), made.constant(1000)
    out = made.node("Gemm", here, head, bias, transB=1)
    graph = helper.make_graph(
        made.nodes, "resnet50",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 224, 224])],
        [helper.make_empty_tensor_value_info(out)], made.constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return bytes(model.SerializeToString())


if __name__ == "__main__":
    import sys

    Path(sys.argv[1]).write_bytes(resnet50())
