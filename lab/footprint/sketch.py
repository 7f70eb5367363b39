"""Writes networks down as ONNX skeletons: the graph and the sizes of its weights, no weights."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

OPSET = 20
BATCH = "N"


class Sketch:
    """A network in the making. Each method adds a node and gives the name of its output."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._made = 0

    def input(self, *shape: int, integers: bool = False) -> str:
        """Return an input with an open batch before ``shape``."""
        kind = TensorProto.INT64 if integers else TensorProto.FLOAT
        name = self._name("input")
        self._inputs.append(helper.make_tensor_value_info(name, kind, [BATCH, *shape]))
        return name

    def weight(self, *shape: int) -> str:
        """Return a constant that stands outside the file."""
        name = self._name("weight")
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "left-out"
        self._constants.append(tensor)
        return name

    def integers(self, *values: int) -> str:
        """Return a constant vector of shapes or axes."""
        name = self._name("integers")
        self._constants.append(
            helper.make_tensor(name, TensorProto.INT64, [len(values)], list(values))
        )
        return name

    def scalar(self, value: float) -> str:
        """Return a constant number."""
        name = self._name("scalar")
        self._constants.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Any operator; the name of its output."""
        name = self._name(operator)
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def convolution(
        self,
        x: str,
        inner: int,
        outer: int,
        kernel: tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        *,
        groups: int = 1,
        bias: bool = True,
        same: bool = True,
    ) -> str:
        """Return a convolution of one or two dimensions; ``same``: as large as its input over
        stride."""
        strides = (stride,) * len(kernel) if isinstance(stride, int) else stride
        inputs = [x, self.weight(outer, inner // groups, *kernel)]
        inputs += [self.weight(outer)] if bias else []
        return self.node(
            "Conv", *inputs, group=groups, strides=list(strides), kernel_shape=list(kernel),
            auto_pad="SAME_UPPER" if same else "VALID",
        )  # fmt: skip

    def dense(self, x: str, inner: int, outer: int) -> str:
        """Return a product of the last axis with weights."""
        made = self.node("MatMul", x, self.weight(inner, outer))
        return self.node("Add", made, self.weight(outer))

    def batch_norm(self, x: str, channels: int) -> str:
        """Over all axes but the second."""
        return self.node("BatchNormalization", x, *(self.weight(channels) for _ in range(4)))

    def layer_norm(self, x: str, width: int) -> str:
        """Over the last axis."""
        return self.node("LayerNormalization", x, self.weight(width), self.weight(width), axis=-1)

    def reshape(self, x: str, *shape: int) -> str:
        """Reshape to a shape; 0 keeps a size, -1 takes the rest."""
        return self.node("Reshape", x, self.integers(*shape))

    def transpose(self, x: str, *order: int) -> str:
        """Axes in this order."""
        return self.node("Transpose", x, perm=list(order))

    def model(self, output: str) -> ModelProto:
        """Return the whole as a model."""
        made = [helper.make_empty_tensor_value_info(output)]
        graph = helper.make_graph(self._nodes, "sketch", self._inputs, made, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])

    def _name(self, stem: str) -> str:
        self._made += 1
        return f"{stem}_{self._made}"


DEPTHS, WIDTHS = (3, 3, 27, 3), (128, 256, 512, 1024)


def convnext_base() -> tuple[Sketch, str]:
    """ConvNeXt-B as its authors and timm write it; the sketch and its output."""
    s = Sketch()
    x = s.input(3, 224, 224)
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
    return s, s.node("Gemm", x, s.weight(1000, WIDTHS[-1]), s.weight(1000), transB=1)


def _channels_normed(s: Sketch, x: str, width: int) -> str:
    x = s.layer_norm(s.transpose(x, 0, 2, 3, 1), width)
    return s.transpose(x, 0, 3, 1, 2)


def _block(s: Sketch, x: str, width: int) -> str:
    y = s.convolution(x, width, width, (7, 7), groups=width)
    y = s.layer_norm(s.transpose(y, 0, 2, 3, 1), width)
    y = s.node("Gelu", s.dense(y, width, 4 * width))
    y = s.node("Mul", s.dense(y, 4 * width, width), s.weight(width))
    return s.node("Add", x, s.transpose(y, 0, 3, 1, 2))
