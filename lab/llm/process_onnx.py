"""A fitted process as ONNX, in double precision, and the proof that both predict the same."""

from __future__ import annotations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.residual import NUMBERS, TIES, Integers
from berth.predictor.learning.onnx_export import OnnxGraph, agreement
from lab.llm.process import Process

TOLERANCE = 1e-6
"""Largest difference allowed, in log seconds; the project's bar is 1e-4."""


def to_onnx(process: Process) -> bytes:
    """Inputs ``ties`` (cases x TIES, int64) and ``numbers`` (cases x NUMBERS, double)."""
    g = OnnxGraph()
    masks: dict[int, str] = {}

    def same(column: int) -> str:
        if column not in masks:
            mine = g.add("Gather", "ties", np.array([column]), axis=1)
            theirs = process.ties[:, column].copy()
            theirs[theirs < 0] = np.iinfo(np.int64).min  # unknown is the same as nothing
            masks[column] = g.add("Equal", mine, theirs[None, :])
        return masks[column]

    total = ""
    for term in process.terms:
        columns, scale = np.array(term.numbers), 1 / np.array(term.lengths)
        theirs = process.numbers[:, columns] * scale
        mine = g.add("Mul", g.add("Gather", "numbers", columns, axis=1), scale)
        square = g.add("ReduceSumSquare", mine, axes=[1], keepdims=1)
        half = g.add("Mul", square, np.array([[0.5]]))
        fixed = np.log(term.variance) - 0.5 * (theirs * theirs).sum(axis=1)[None, :]
        cross = g.add("MatMul", mine, theirs.T)
        each = g.add("Exp", g.add("Add", g.add("Sub", cross, half), fixed))
        mask = ""
        for column in term.ties:
            mask = g.add("And", mask, same(column)) if mask else same(column)
        if mask:
            each = g.add("Mul", each, g.cast(mask, "float64"))
        total = g.add("Add", total, each) if total else each
    sums = g.add("MatMul", total, process.weights[:, None])
    g.add("Add", sums, np.array([[process.mean]]), to="residual")
    inputs = {"ties": (len(TIES), "int64"), "numbers": (len(NUMBERS), "float64")}
    return g.model("residual", inputs, ("residual", 1))


def check_agreement(raw: bytes, process: Process, ties: Integers, numbers: Floats) -> float:
    """Return largest difference on these cases, known and made unknown. Raises BerthError above
    bar."""
    strangers = ties.copy()
    strangers[:, : len(TIES) // 2] = -1
    return max(
        agreement(raw, {"ties": tied, "numbers": numbers}, process(tied, numbers), TOLERANCE)
        for tied in (ties, strangers)
    )
