"""ResNet-50 and BERT as exporters write them, weights left out: the shapes alone."""

from __future__ import annotations

from onnx import NodeProto, TensorProto, helper

OPSET = 17


class Writer:
    """Collects nodes and constants of a model."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        """A node; gives the name of its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """A constant of which only the shape is there."""
        name = f"w{len(self.constants)}"
        self.constants.append(TensorProto(name=name, dims=shape, data_type=1))
        return name

    def integers(self, *values: int, scalar: bool = False) -> str:
        """A constant with its values, made by a node as TorchScript does."""
        value = helper.make_tensor("v", 7, [] if scalar else [len(values)], values)
        return self.add("Constant", value=value)

    def number(self, value: float) -> str:
        """A scalar."""
        return self.add("Constant", value=helper.make_tensor("v", 1, [], [value]))

    def model(self, inputs: list[object], last: str) -> bytes:
        """The file."""
        graph = helper.make_graph(
            self.nodes, "g", inputs, [helper.make_empty_tensor_value_info(last)], self.constants
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets).SerializeToString()


def resnet50() -> bytes:
    """Batch normalisations folded, as exporters leave it: 122 nodes."""
    w = Writer()

    def conv(x: str, cin: int, cout: int, size: int, stride: int = 1) -> str:
        pad = size // 2
        return w.add(
            "Conv", x, w.weight(cout, cin, size, size), w.weight(cout), kernel_shape=[size, size],
            strides=[stride, stride], pads=[pad] * 4, group=1, dilations=[1, 1],
        )  # fmt: skip

    x = w.add("Relu", conv("x", 3, 64, 7, 2))
    x = w.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    width = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = w.add("Relu", conv(x, width, inner, 1))
            y = w.add("Relu", conv(y, inner, inner, 3, stride))
            y = conv(y, inner, 4 * inner, 1)
            if not block:
                x = conv(x, width, 4 * inner, 1, stride)
            x = w.add("Relu", w.add("Add", y, x))
            width = 4 * inner
    x = w.add("Flatten", w.add("GlobalAveragePool", x))
    last = w.add("Gemm", x, w.weight(1000, 2048), w.weight(1000), transB=1)
    return w.model([helper.make_tensor_value_info("x", 1, ["batch", 3, 224, 224])], last)


def bert(layers: int = 12, width: int = 768, heads: int = 12) -> bytes:
    """As TorchScript writes it: shapes computed in the graph, normalisations spelt out."""
    w = Writer()
    tokens = [helper.make_tensor_value_info("ids", 7, ["batch", "sequence"])]

    def normalised(x: str) -> str:
        mean = w.add("ReduceMean", x, axes=[-1])
        off = w.add("Sub", x, mean)
        square = w.add("ReduceMean", w.add("Pow", off, w.number(2.0)), axes=[-1])
        root = w.add("Sqrt", w.add("Add", square, w.number(1e-12)))
        scaled = w.add("Mul", w.add("Div", off, root), w.weight(width))
        return w.add("Add", scaled, w.weight(width))

    def dense(x: str, inside: int, outside: int) -> str:
        return w.add("Add", w.weight(outside), w.add("MatMul", x, w.weight(inside, outside)))

    def size(x: str, axis: int) -> str:
        at = w.add("Gather", w.add("Shape", x), w.integers(axis, scalar=True), axis=0)
        return w.add("Unsqueeze", at, w.integers(0))

    def by_heads(x: str, order: list[int]) -> str:
        shape = w.add(
            "Concat", size(x, 0), size(x, 1), w.integers(heads), w.integers(width // heads), axis=0
        )
        return w.add("Transpose", w.add("Reshape", x, shape), perm=order)

    x = w.add("Add", w.add("Gather", w.weight(30522, width), "ids"), w.weight(1, width))
    x = normalised(x)
    for _ in range(layers):
        query = by_heads(dense(x, width, width), [0, 2, 1, 3])
        key = by_heads(dense(x, width, width), [0, 2, 3, 1])
        value = by_heads(dense(x, width, width), [0, 2, 1, 3])
        scores = w.add("Div", w.add("MatMul", query, key), w.number(8.0))
        mixed = w.add("MatMul", w.add("Softmax", scores, axis=-1), value)
        mixed = w.add("Transpose", mixed, perm=[0, 2, 1, 3])
        shape = w.add("Concat", size(mixed, 0), size(mixed, 1), w.integers(width), axis=0)
        joined = w.add("Reshape", mixed, shape)
        x = normalised(w.add("Add", dense(joined, width, width), x))
        up = dense(x, width, 4 * width)
        gate = w.add("Add", w.add("Erf", w.add("Div", up, w.number(1.4142))), w.number(1.0))
        up = w.add("Mul", w.add("Mul", up, gate), w.number(0.5))
        x = normalised(w.add("Add", dense(up, 4 * width, width), x))
    return w.model(tokens, x)
