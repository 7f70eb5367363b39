"""Operations of each kind of operator, worked out by hand."""

from __future__ import annotations

import pytest

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.operators import CATALOGUE, Call
from berth.predictor.graphs.values import FLOAT, FLOAT16, INT8, INT64, UINT8, Tensor


def t(*shape: int, dtype: int = FLOAT) -> Tensor:
    return Tensor(dtype, shape)


def ints(*values: int) -> Tensor:
    return Tensor(INT64, (len(values),), values, 0)


X = t(2, 8, 4, 4)
N = 2 * 8 * 4 * 4


def case(name, inputs, attributes, shape, macs, flops):
    return pytest.param(name, inputs, attributes, shape, macs, flops, id=name)


WORK = [
    case("Conv", [X, t(16, 8, 3, 3)], {"pads": (1, 1, 1, 1)}, (2, 16, 4, 4), 2 * 16 * 16 * 72, 0),
    case("Conv", [X, t(8, 1, 3, 3), t(8)], {"group": 8}, (2, 8, 2, 2), 64 * 9, 64),
    case("Conv", [X, t(8, 8, 1, 1)], {"strides": (2, 2)}, (2, 8, 2, 2), 64 * 8, 0),
    case("Conv", [t(1, 2, 9), t(4, 2, 3)], {"dilations": (2,)}, (1, 4, 5), 20 * 6, 0),
    case("Conv", [t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2)], {}, (1, 3, 3, 3, 3), 81 * 16, 0),
    case("Conv", [X, t(8, 8, 3, 3)], {"auto_pad": b"SAME_UPPER", "strides": (2, 2)}, (2, 8, 2, 2),
         64 * 72, 0),
    case("ConvTranspose", [X, t(8, 4, 2, 2)], {"strides": (2, 2)}, (2, 4, 8, 8), N * 4 * 4, 0),
    case("ConvInteger", [t(1, 2, 4, 4, dtype=UINT8), t(3, 2, 3, 3, dtype=UINT8)], {}, (1, 3, 2, 2),
         12 * 18, 0),
    case("QLinearConv",
         [t(1, 2, 4, 4, dtype=INT8), t(), t(), t(3, 2, 3, 3, dtype=INT8), t(), t(), t(), t(), t(3)],
         {}, (1, 3, 2, 2), 12 * 18, 12),
    case("DeformConv", [t(1, 2, 4, 4), t(3, 2, 3, 3), t(1, 18, 2, 2)], {}, (1, 3, 2, 2), 12 * 18,
         7 * 4 * 2 * 9),
    case("MatMul", [t(5, 2, 3), t(3, 4)], {}, (5, 2, 4), 40 * 3, 0),
    case("MatMul", [t(5, 1, 2, 3), t(6, 3, 4)], {}, (5, 6, 2, 4), 240 * 3, 0),
    case("MatMul", [t(3), t(3)], {}, (), 3, 0),
    case("Gemm", [t(7, 3), t(5, 3), t(5)], {"transB": 1}, (7, 5), 35 * 3, 35),
    case("Gemm", [t(3, 7), t(3, 5)], {"transA": 1}, (7, 5), 35 * 3, 0),
    case("com.microsoft:FusedMatMul", [t(2, 4, 3), t(2, 5, 3)], {"transB": 1}, (2, 4, 5), 40 * 3,
         0),
    case("com.microsoft:MatMulNBits", [t(2, 6, 32), t(8, 1, 16, dtype=UINT8), t(8)],
         {"K": 32, "N": 8}, (2, 6, 8), 96 * 32, 2 * 32 * 8),
    case("Einsum", [t(2, 3, 4), t(4, 5)], {"equation": b"bij,jk->bik"}, (2, 3, 5), 2 * 3 * 4 * 5,
         0),
    case("Einsum", [t(2, 6, 3, 4), t(2, 6, 5, 4)], {"equation": b"...qd,...kd->...qk"},
         (2, 6, 3, 5), 12 * 60, 0),
    case("Einsum", [t(2, 3), t(3, 4), t(4, 5)], {"equation": b"ab,bc,cd"}, (2, 5), 24 + 40, 0),
    case("Einsum", [t(3, 4)], {"equation": b"ij->ji"}, (4, 3), 0, 0),
    case("Attention", [t(2, 4, 5, 8), t(2, 4, 7, 8), t(2, 4, 7, 6)], {}, (2, 4, 5, 6), 280 * 14,
         280 * 6),
    case("Attention", [t(2, 5, 32), t(2, 7, 16), t(2, 7, 16)],
         {"q_num_heads": 4, "kv_num_heads": 2}, (2, 5, 32), 280 * 16, 280 * 6),
    case("com.microsoft:Attention", [t(2, 5, 32), t(32, 96), t(96)], {"num_heads": 4}, (2, 5, 32),
         200 * 16 + 10 * 32 * 96, 200 * 6 + 960),
    case("com.microsoft:MultiHeadAttention", [t(2, 5, 32), t(2, 7, 32), t(2, 7, 32)],
         {"num_heads": 4}, (2, 5, 32), 280 * 16, 280 * 6),
    case("com.microsoft:GroupQueryAttention",
         [t(2, 1, 32), t(2, 1, 16), t(2, 1, 16), t(2, 2, 6, 8), t(2, 2, 6, 8)],
         {"num_heads": 4, "kv_num_heads": 2}, (2, 1, 32), 56 * 16, 56 * 6),
    case("LSTM", [t(6, 2, 3), t(1, 20, 3), t(1, 20, 5)], {"hidden_size": 5}, (6, 1, 2, 5), 240 * 8,
         8 * 240),
    case("GRU", [t(6, 2, 3), t(2, 15, 3), t(2, 15, 5)], {"hidden_size": 5}, (6, 2, 2, 5), 360 * 8,
         8 * 360),
    case("BatchNormalization", [X, t(8), t(8), t(8), t(8)], {}, X.shape, 0, 2 * N),
    case("LayerNormalization", [X, t(4), t(4)], {}, X.shape, 0, 7 * N),
    case("LayerNormalization", [X, t(4)], {}, X.shape, 0, 6 * N),
    case("RMSNormalization", [X, t(4)], {}, X.shape, 0, 4 * N),
    case("GroupNormalization", [X, t(8), t(8)], {"num_groups": 2}, X.shape, 0, 7 * N),
    case("com.microsoft:SkipLayerNormalization", [t(2, 5, 8), t(2, 5, 8), t(8), t(8)], {},
         (2, 5, 8), 0, 8 * 80),
    case("Softmax", [X], {}, X.shape, 0, 5 * N),
    case("Relu", [X], {}, X.shape, 0, N),
    case("Sigmoid", [X], {}, X.shape, 0, 4 * N),
    case("Gelu", [X], {}, X.shape, 0, 5 * N),
    case("com.microsoft:BiasGelu", [t(2, 5, 8), t(8)], {}, (2, 5, 8), 0, 6 * 80),
    case("HardSwish", [X], {}, X.shape, 0, 5 * N),
    case("Clip", [X], {}, X.shape, 0, 2 * N),
    case("Add", [X, t(8, 1, 1)], {}, X.shape, 0, N),
    case("Sum", [X, X, X], {}, X.shape, 0, 2 * N),
    case("Where", [t(4, 4), X, t()], {}, X.shape, 0, N),
    case("Exp", [X], {}, X.shape, 0, N),
    case("Cast", [X], {"to": FLOAT16}, X.shape, 0, 0),
    case("MaxPool", [X], {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
         (2, 8, 2, 2), 0, 64 * 9),
    case("AveragePool", [t(1, 1, 5, 5)],
         {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}, (1, 1, 3, 3), 0, 36),
    case("GlobalAveragePool", [X], {}, (2, 8, 1, 1), 0, N),
    case("ReduceMean", [X, ints(2, 3)], {"keepdims": 0}, (2, 8), 0, N),
    case("ReduceL2", [X, ints(-1)], {}, (2, 8, 4, 1), 0, 2 * N),
    case("CumSum", [X, ints(1)], {}, X.shape, 0, N),
    case("TopK", [t(4, 100), ints(5)], {}, (4, 5), 0, 400 * 3),
    case("ArgMax", [X], {"axis": 1, "keepdims": 0}, (2, 4, 4), 0, N),
    case("Resize", [X, None, None, ints(2, 8, 8, 8)], {"mode": b"linear"}, (2, 8, 8, 8), 0,
         3 * 2 * 4 * N),
    case("Resize", [X, None, Tensor(FLOAT, (4,), (1.0, 1.0, 2.0, 2.0), 4)], {"mode": b"nearest"},
         (2, 8, 8, 8), 0, 0),
    case("Col2Im", [t(1, 27, 16), ints(6, 6), ints(3, 3)], {}, (1, 3, 6, 6), 0, 27 * 16),
    case("GridSample", [X, t(2, 3, 3, 2)], {}, (2, 8, 3, 3), 0, 7 * 144),
    case("DequantizeLinear", [t(2, 3, dtype=INT8), t(), t(dtype=INT8)], {}, (2, 3), 0, 12),
    case("QuantizeLinear", [t(2, 3), t(), t(dtype=INT8)], {}, (2, 3), 0, 30),
    case("RotaryEmbedding", [t(1, 4, 5, 8), t(5, 4), t(5, 4)], {}, (1, 4, 5, 8), 0, 3 * 160),
    *(
        case(name, inputs, attributes, shape, 0, 0)
        for name, inputs, attributes, shape in (
            ("Reshape", [X, ints(0, -1)], {}, (2, 128)),
            ("Transpose", [X], {"perm": (0, 2, 3, 1)}, (2, 4, 4, 8)),
            ("Slice", [X, ints(1), ints(2**62), ints(1)], {}, (2, 7, 4, 4)),
            ("Slice", [X, ints(-1), ints(-(2**62)), ints(1), ints(-2)], {}, (2, 4, 4, 4)),
            ("Concat", [X, X], {"axis": -3}, (2, 16, 4, 4)),
            ("Gather", [t(1000, 16), t(2, 7, dtype=INT64)], {}, (2, 7, 16)),
            ("GatherND", [t(2, 3, 4), t(2, 5, 1, dtype=INT64)], {"batch_dims": 1}, (2, 5, 4)),
            ("Expand", [t(1, 8, 1, 1), ints(2, 8, 4, 4)], {}, X.shape),
            ("Pad", [X, ints(0, 0, 1, 1, 0, 0, 2, 2)], {}, (2, 8, 7, 7)),
            ("DepthToSpace", [X], {"blocksize": 2}, (2, 2, 8, 8)),
            ("Tile", [X, ints(1, 2, 1, 3)], {}, (2, 16, 4, 12)),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "attributes", "shape", "macs", "flops"), WORK)
def test_work_is_what_the_definition_says(name, inputs, attributes, shape, macs, flops) -> None:
    entry = CATALOGUE[name]
    call = Call(name.rpartition(":")[2], attributes, inputs, 1, 20)
    outputs = entry.shapes(call)
    assert outputs[0].shape == shape
    assert entry.cost(call, outputs) == (macs, flops)


def test_a_half_open_pool_may_not_start_in_the_end_padding() -> None:
    pool = {"kernel_shape": (2,), "strides": (2,), "pads": (0, 1), "ceil_mode": 1}
    outputs = CATALOGUE["MaxPool"].shapes(Call("MaxPool", pool, [t(1, 1, 4)], 1, 20))
    assert outputs[0].shape == (1, 1, 2)


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [
        ("Conv", [X, t(16, 4, 3, 3)], {}),
        ("Conv", [X, t(16, 8, 9, 9)], {}),
        ("Conv", [X, t(16, 8, 3, 3)], {"strides": (0, 1)}),
        ("Conv", [X, t(16, 8, 3, 3)], {"group": -1}),
        ("Conv", [X], {}),
        ("MatMul", [t(2, 3), t(4, 5)], {}),
        ("MatMul", [t(), t(4, 5)], {}),
        ("Gemm", [t(2, 3, 4), t(4, 5)], {}),
        ("Einsum", [t(2, 3), t(4, 5)], {"equation": b"ij,jk->ik"}),
        ("Einsum", [t(2, 3)], {"equation": b"ij->iz"}),
        ("Einsum", [t(2, 3)], {}),
        ("Add", [t(2, 3), t(4)], {}),
        ("Reshape", [X, ints(-1, -1)], {}),
        ("Reshape", [X, ints(7)], {}),
        ("Reshape", [X, t(2)], {}),
        ("Reshape", [X, ints(-5)], {}),
        ("Squeeze", [X, ints(0)], {}),
        ("Unsqueeze", [X, ints(0, 0)], {}),
        ("Transpose", [X], {"perm": (0, 0, 1, 2)}),
        ("Slice", [X, ints(0), ints(1), ints(0), ints(0)], {}),
        ("Concat", [X, t(2, 3)], {}),
        ("Split", [X, ints(3, 3)], {"axis": 1}),
        ("Expand", [X, ints(3, 3)], {}),
        ("Expand", [t(1), ints(2**50)], {}),
        ("Tile", [X, ints(2)], {}),
        ("Gather", [X, t(2)], {"axis": 9}),
        ("GatherND", [t(2), t(2, 3)], {}),
        ("Pad", [X, ints(1)], {}),
        ("Pad", [X, ints(0, 0, -9, 0, 0, 0, 0, 0)], {}),
        ("ConstantOfShape", [ints(2**40, 2**40)], {}),
        ("Resize", [X], {}),
        ("Resize", [X, None, Tensor(FLOAT, (4,), (1.0, 1.0, float("nan"), 2.0), 4)], {}),
        ("TopK", [X, t(1)], {}),
        ("NonZero", [X], {}),
        ("Range", [t(), t(), t()], {}),
        ("LSTM", [X, t(2)], {}),
        ("Attention", [t(2, 3), t(2), t(2)], {}),
        ("com.microsoft:Attention", [t(2, 5, 32), t(32, 96)], {}),
        ("Col2Im", [X, ints(6, 6), ints(3, 3)], {}),
        ("DepthToSpace", [X], {"blocksize": 3}),
    ],
)
def test_what_does_not_go_together_is_named(name, inputs, attributes) -> None:
    entry = CATALOGUE[name]
    call = Call(name.rpartition(":")[2], attributes, inputs, 1, 20)
    with pytest.raises(Problem):
        entry.shapes(call)
