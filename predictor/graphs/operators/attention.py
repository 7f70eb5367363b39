"""Shape and cost rules of attention operators: ONNX's own (opset 23) and onnxruntime's.

Operations of one attention head, with q queries, k keys, head size h and value size v:

* scores: q k h MACs;
* scale and softmax: 6 q k flops, and q k more for a mask input;
* weighted values: q k v MACs.

Causal masks do not halve the count: frameworks' reference kernels compute the full scores.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.operators.base import Call, OpFamily, add, each_output, like_first
from berth.predictor.graphs.values import Tensor, checked


class _Heads(NamedTuple):
    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    size: int
    value_size: int


def _scores(call: Call, heads: _Heads, *, masked: bool) -> tuple[int, int]:
    pairs = heads.batch * heads.heads * heads.queries * heads.keys
    return pairs * (heads.size + heads.value_size), pairs * (6 + masked)


def _onnx(call: Call) -> _Heads:
    q, k, v = (call.tensor(n).shape for n in range(3))
    past = call.optional(4)
    earlier = past.shape[2] if past is not None and len(past.shape) == 4 else 0
    if len(q) == len(k) == len(v) == 4:
        sizes = _Heads(q[0], q[2], k[2] + earlier, q[1], k[1], q[3], v[3])
    elif len(q) == len(k) == len(v) == 3:
        heads = call.integer("q_num_heads", 0)
        kv_heads = call.integer("kv_num_heads", heads)
        if heads < 1 or kv_heads < 1 or q[2] % heads or v[2] % kv_heads:
            raise Problem(f"attends with {heads} heads over {list(q)}")
        sizes = _Heads(q[0], q[1], k[1] + earlier, heads, kv_heads, q[2] // heads, v[2] // kv_heads)
    else:
        raise Problem(f"attends with {list(q)} to {list(k)} and {list(v)}")
    return sizes


def _attention(call: Call) -> list[Tensor]:
    heads, q = _onnx(call), call.tensor(0)
    shape: tuple[int, ...]
    if len(q.shape) == 4:
        shape = (heads.batch, heads.heads, heads.queries, heads.value_size)
    else:
        shape = (heads.batch, heads.queries, heads.heads * heads.value_size)
    key = (heads.batch, heads.kv_heads, heads.keys, heads.size)
    value = (heads.batch, heads.kv_heads, heads.keys, heads.value_size)
    scores = (heads.batch, heads.heads, heads.queries, heads.keys)
    return [Tensor(q.dtype, checked(s)) for s in (shape, key, value, scores)][: call.outputs]


def _attention_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    return _scores(call, _onnx(call), masked=call.optional(3) is not None)


def _fused_self(call: Call) -> tuple[_Heads, int]:
    """Return the head sizes of com.microsoft Attention and the width of its projection.

    The input has the shape [batch, sequence, I], the weight [I, 3 H].
    """
    data, weight = call.tensor(0).shape, call.tensor(1).shape
    heads = call.integer("num_heads", 0)
    sizes = call.integers("qkv_hidden_sizes")
    width = weight[-1] if weight else 0
    q, v = (sizes[0], sizes[2]) if sizes and len(sizes) == 3 else (width // 3, width // 3)
    if len(data) != 3 or heads < 1 or q % heads or v % heads:
        raise Problem(f"attends with {heads} heads over {list(data)}")
    past = call.optional(4)
    earlier = past.shape[3] if past is not None and len(past.shape) == 5 else 0
    keys = data[1] + earlier
    return _Heads(data[0], data[1], keys, heads, heads, q // heads, v // heads), width


def _microsoft(call: Call) -> list[Tensor]:
    heads, _ = _fused_self(call)
    data = call.tensor(0)
    shape = checked((heads.batch, heads.queries, heads.heads * heads.value_size))
    present = checked((2, heads.batch, heads.heads, heads.keys, heads.size))
    return [Tensor(data.dtype, shape), Tensor(data.dtype, present)][: call.outputs]


def _microsoft_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    heads, width = _fused_self(call)
    macs, flops = _scores(call, heads, masked=call.optional(3) is not None)
    data = call.tensor(0)
    tokens = heads.batch * heads.queries
    return macs + tokens * data.shape[2] * width, flops + tokens * width


def _grouped(call: Call) -> _Heads:
    q = call.tensor(0).shape
    heads = call.integer("num_heads", 0)
    kv_heads = call.integer("kv_num_heads", heads)
    k, v = call.optional(1), call.optional(2)
    if len(q) == 5:  # packed as B S heads 3 size
        return _Heads(q[0], q[1], q[1], q[2], q[2], q[4], q[4])
    if len(q) != 3 or heads < 1 or kv_heads < 1:
        raise Problem(f"attends with {heads} heads over {list(q)}")
    if k is None or v is None:  # queries, keys and values side by side
        size = q[2] // (heads + 2 * kv_heads)
        return _Heads(q[0], q[1], q[1], heads, kv_heads, size, size)
    past = call.optional(3 if call.operator == "GroupQueryAttention" else 6)
    earlier = past.shape[2] if past is not None and len(past.shape) == 4 else 0
    if len(k.shape) == 4:  # B heads S size
        keys, value = k.shape[2], v.shape[-1]
    else:
        keys, value = k.shape[1] if len(k.shape) > 1 else 0, v.shape[-1] // kv_heads
    return _Heads(q[0], q[1], keys + earlier, heads, kv_heads, q[2] // heads, value)


def _grouped_shapes(call: Call) -> list[Tensor]:
    heads, dtype = _grouped(call), call.tensor(0).dtype
    shape = checked((heads.batch, heads.queries, heads.heads * heads.value_size))
    present = Tensor(dtype, checked((heads.batch, heads.kv_heads, heads.keys, heads.size)))
    return [Tensor(dtype, shape), present, present][: call.outputs]


def _grouped_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    return _scores(call, _grouped(call), masked=False)


def _embed(call: Call) -> list[Tensor]:
    """Return the outputs of com.microsoft EmbedLayerNormalization.

    The token ids have the shape [batch, sequence], the word table [vocabulary, H].
    """
    ids, table = call.tensor(0).shape, call.tensor(2)
    if len(ids) != 2 or len(table.shape) != 2:
        raise Problem(f"embeds {list(ids)} by {list(table.shape)}")
    shape = checked((*ids, table.shape[1]))
    mask = Tensor(6, ids[:1])
    every = [Tensor(table.dtype, shape), mask, Tensor(table.dtype, shape)]
    return every[: call.outputs]


def _linear(call: Call) -> list[Tensor]:
    q, v = call.tensor(0), call.tensor(2)
    if len(q.shape) != 3 or len(v.shape) != 3:
        raise Problem(f"attends with {list(q.shape)} to {list(v.shape)}")
    heads = max(call.integer("q_num_heads", 1), 1)
    kv_heads = max(call.integer("kv_num_heads", heads), 1)
    value = v.shape[2] // kv_heads
    out = Tensor(q.dtype, checked((q.shape[0], q.shape[1], heads * value)))
    state = Tensor(q.dtype, checked((q.shape[0], kv_heads, q.shape[2] // heads, value)))
    return [out, state][: call.outputs]


def _linear_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # The state grows by an outer product and is read by a product, at each step.
    q = call.tensor(0).shape
    heads = max(call.integer("q_num_heads", 1), 1)
    size, width = q[2] // heads, outputs[0].shape[2]
    return 2 * q[0] * q[1] * size * width, 0


add("Attention", OpFamily.ATTENTION, _attention, _attention_cost)
add("LinearAttention", OpFamily.ATTENTION, _linear, _linear_cost)
add(
    "com.microsoft:Attention com.microsoft:QAttention",
    OpFamily.ATTENTION,
    _microsoft,
    _microsoft_cost,
)
add("com.microsoft:MultiHeadAttention", OpFamily.ATTENTION, _grouped_shapes, _grouped_cost)
add("com.microsoft:GroupQueryAttention", OpFamily.ATTENTION, _grouped_shapes, _grouped_cost)
# Two products and a sum for each element.
add(
    "RotaryEmbedding com.microsoft:RotaryEmbedding",
    OpFamily.ELEMENTWISE,
    like_first,
    each_output(3),
)
# Two sums of embeddings, then a layer normalisation.
add("com.microsoft:EmbedLayerNormalization", OpFamily.NORMALISATION, _embed, each_output(9))
