"""Kinds of the devices of the public OpenCL measurements, which the shipped bundle knows."""

from __future__ import annotations

KINDS = {
    "xeon_es-2697v2": "cpu",
    "i7-6700k": "cpu",
    "i5-3350": "cpu",
    "knl": "manycore",
    **dict.fromkeys(("gtx1080", "gtx1080ti", "titanx", "k20c", "k40c"), "nvidia"),
    **dict.fromkeys(
        (
            "fiji-furyx",
            "firepro-s9150",
            "hawaii-r9-290x",
            "hawaii-r9-295x2",
            "polaris-rx480",
            "tahiti-hd7970",
        ),
        "amd",
    ),
}
"""Device -> what it is, from its name."""
