"""The features of the thesis's Table 6.3: 14 of the model, 20 of the hardware.

Table 6.3 of K. Panner Selvam's thesis takes them from an ONNX graph, ``cudaDeviceProp`` and the
host. Here the graph is counted from the configuration (``NODES_PER_LAYER``: the operators of a
decoder layer as written, a residual edge for each addition); what an accelerator or a host does
not say is NaN.
"""

from __future__ import annotations

import math

from berth.pilot.platform import Platform, Precision
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.memory import memory
from berth.predictor.hardware.unit import Unit

MODEL_FEATURES = ("BS", "SL", "QT", "TN", "TE", "TM", "TP", "TMmem", "MPE", "NHL", "NAH", "HS",
                  "VS", "TVS")  # fmt: skip
HARDWARE_FEATURES = ("PF32", "PBHBM", "CM", "Cm", "MTPB", "MTPM", "RPB", "RPM", "WS", "SMPB",
                     "SMMP", "SMS", "SMPBO", "CC", "RAM", "LC1", "LC2", "LC3", "NC",
                     "CA")  # fmt: skip
NODES_PER_LAYER = 16
"""Two norms, q, k, v, rotation of two, scores, softmax, mix, output, two sums, gate or up,
activation, down."""
EDGES_PER_LAYER = 20
_ARCHITECTURES = {"x86_64": 0.0, "aarch64": 1.0, "ppc64le": 2.0}


def model_features(model: LanguageModel, load: Load) -> dict[str, float]:
    """Return the 14 model features under a load, by the thesis's abbreviations; memory in bytes."""
    need = memory(model, load)
    experts = 3 * model.experts * model.moe_layers if model.experts > 1 else 0
    nodes = NODES_PER_LAYER * model.layers + experts + 3
    return {
        "BS": float(load.batch),
        "SL": float(load.input_tokens),
        "QT": load.weight_bits,
        "TN": float(nodes),
        "TE": float(EDGES_PER_LAYER * model.layers + experts + 2),
        "TM": model.active_parameters * load.input_tokens * load.batch
        + model.attending_width * load.input_tokens**2 * load.batch,
        "TP": model.parameters,
        "TMmem": need.peak.mid * load.gpus,
        "MPE": float(model.positions),
        "NHL": float(model.layers),
        "NAH": float(model.heads),
        "HS": float(model.hidden_size),
        "VS": float(model.vocabulary),
        "TVS": 0.0,  # token types are the encoders'
    }


def hardware_features(device: Unit, host: Platform | None = None) -> dict[str, float]:
    """Return the 20 hardware features; those of the host are NaN without its platform."""
    sheet, cuda = device.sheet, device.sheet.cuda
    multiprocessors = float(sheet.multiprocessors or math.nan)
    levels = {} if host is None else {m.level: m.capacity_bytes for m in host.signature.memory}
    limits = () if cuda is None else (
        *(sheet.compute_capability or ()), cuda.threads_per_block,
        cuda.threads_per_multiprocessor, cuda.registers_per_block,
        cuda.registers_per_multiprocessor, cuda.warp_size, cuda.shared_bytes_per_block,
        cuda.shared_bytes_per_multiprocessor, multiprocessors, cuda.shared_bytes_opt_in,
    )  # fmt: skip
    missing = [math.nan] * 11
    missing[9] = multiprocessors
    values = [
        device.peaks.vector.get(Precision.FP32, math.nan) / 1e9,
        device.bytes_per_s / 1e9,
        *(limits or missing),
        math.nan,  # the clock is no part of a platform
        math.nan if host is None else float(host.memory_bytes),
        *(float(levels.get(name, math.nan)) for name in ("l1", "l2", "l3")),
        math.nan if host is None else float(host.cores),
        math.nan if host is None else _ARCHITECTURES.get(host.architecture, math.nan),
    ]
    return dict(zip(HARDWARE_FEATURES, map(float, values), strict=True))
