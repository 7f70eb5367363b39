"""Write a decoder-only transformer of given sizes as an ONNX file without weights.

Users predict a transformer with it before they have a model file. The model has an embedding,
pre-norm layers of attention and a feed-forward network of four times the width (Radford et al.
2019), and an output matrix.
"""

from __future__ import annotations

from berth.predictor.graphs.front_ends.onnx_writing import FLOAT, INT64, model, node, tensor

FEED_FORWARD = 4


def transformer(*, layers: int, width: int, heads: int, vocabulary: int, sequence: int) -> bytes:
    """Return a decoder-only transformer as the bytes of an ONNX file without weights.

    Its input is ``tokens`` [batch, sequence]. ``width`` must be a multiple of ``heads``.
    """
    nodes = [node("Gather", ["table", "tokens"], ["h0"])]
    constants = [
        tensor("table", (vocabulary, width)), tensor("out", (width, vocabulary)),
        tensor("split", (4,), (0, 0, heads, width // heads)), tensor("join", (3,), (0, 0, width)),
        tensor("scale", ()),
    ]  # fmt: skip
    for n in range(layers):
        nodes += _layer(n)
        constants += [tensor(f"w{kind}{n}", (width, width)) for kind in "qkvo"]
        constants += [tensor(f"{kind}{n}", (width,)) for kind in ("g1", "b1", "g2", "b2")]
        constants += [tensor(f"up{n}", (width, FEED_FORWARD * width))]
        constants += [tensor(f"down{n}", (FEED_FORWARD * width, width))]
    nodes.append(node("MatMul", [f"h{layers}", "out"], ["logits"]))
    return model(
        nodes,
        constants,
        [("tokens", INT64, ("batch", sequence))],
        ("logits", FLOAT, ("batch", sequence, vocabulary)),
    )


def attention(n: int) -> list[bytes]:
    """Return the nodes of layer ``n`` from its queries, keys and values, ``qm``, ``km`` and ``vm``
    [batch, sequence, width], to the joined heads, ``ar``."""
    nodes = []
    for kind, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes += [
            node("Reshape", [f"{kind}m{n}", "split"], [f"{kind}r{n}"]),
            node("Transpose", [f"{kind}r{n}"], [f"{kind}t{n}"], perm=order),
        ]
    return [
        *nodes,
        node("MatMul", [f"qt{n}", f"kt{n}"], [f"s{n}"]),
        node("Mul", [f"s{n}", "scale"], [f"ss{n}"]),
        node("Softmax", [f"ss{n}"], [f"p{n}"]),
        node("MatMul", [f"p{n}", f"vt{n}"], [f"a{n}"]),
        node("Transpose", [f"a{n}"], [f"at{n}"], perm=(0, 2, 1, 3)),
        node("Reshape", [f"at{n}", "join"], [f"ar{n}"]),
    ]


def _layer(n: int) -> list[bytes]:
    return [
        node("LayerNormalization", [f"h{n}", f"g1{n}", f"b1{n}"], [f"n{n}"]),
        *(node("MatMul", [f"n{n}", f"w{kind}{n}"], [f"{kind}m{n}"]) for kind in "qkv"),
        *attention(n),
        node("MatMul", [f"ar{n}", f"wo{n}"], [f"m{n}"]),
        node("Add", [f"m{n}", f"h{n}"], [f"x{n}"]),
        node("LayerNormalization", [f"x{n}", f"g2{n}", f"b2{n}"], [f"y{n}"]),
        node("MatMul", [f"y{n}", f"up{n}"], [f"u{n}"]),
        node("Gelu", [f"u{n}"], [f"e{n}"]),
        node("MatMul", [f"e{n}", f"down{n}"], [f"d{n}"]),
        node("Add", [f"d{n}", f"x{n}"], [f"h{n + 1}"]),
    ]
