"""Recurrent layers: gates of matrix products, step by step."""

from __future__ import annotations

from berth.predictor.graphs.limits import Problem
from berth.predictor.graphs.operators.base import Call, Family, add
from berth.predictor.graphs.values import Tensor, checked

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _sizes(call: Call) -> tuple[int, int, int, int, int]:
    """Steps, batch, inputs, hidden size, directions."""
    data, weight = call.tensor(0).shape, call.tensor(1).shape
    if len(data) != 3 or len(weight) != 3:
        raise Problem(f"runs over {list(data)} with weights {list(weight)}")
    hidden = call.integer("hidden_size", weight[1] // GATES[call.operator])
    steps, batch = (data[1], data[0]) if call.integer("layout", 0) else (data[0], data[1])
    return steps, batch, data[2], hidden, weight[0]


def _layer(call: Call) -> list[Tensor]:
    steps, batch, _, hidden, directions = _sizes(call)
    dtype = call.tensor(0).dtype
    if call.integer("layout", 0):
        every, last = (batch, steps, directions, hidden), (batch, directions, hidden)
    else:
        every, last = (steps, directions, batch, hidden), (directions, batch, hidden)
    state = Tensor(dtype, checked(last))
    return [Tensor(dtype, checked(every)), state, state][: call.outputs]


def _layer_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # Each gate multiplies inputs and state by its weights; then about 8 operations a gate's unit.
    steps, batch, inputs, hidden, directions = _sizes(call)
    units = steps * batch * directions * hidden * GATES[call.operator]
    return units * (inputs + hidden), 8 * units


add("RNN GRU LSTM", Family.RECURRENT, _layer, _layer_cost)
