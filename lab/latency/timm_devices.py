"""The devices of the measurements as Berth's platforms."""

from __future__ import annotations

from functools import cache

from berth.predictor.hardware import platforms
from berth.predictor.hardware.roofs import Numbers, Roof, roofs

OWN_CPU = "epyc-genoa-vm"
"""Where our own runs were measured, on one core."""
PLATFORM = {
    "3090": "rtx-3090-24gb",
    "5090": "rtx-5090-32gb",
    "pro6000maxq": "rtx-pro-6000-maxq-96gb",
    "i9_10940x": "i9-10940x",
    "i7_12700h": "i7-12700h",
    OWN_CPU: OWN_CPU,
}
DEVICES = tuple(PLATFORM)[:-1]
"""timm's."""
GPUS = DEVICES[:3]
NUMBERS = {"fp32": Numbers.FP32, "amp": Numbers.FP16, "amp_bf16": Numbers.BF16,
           "bf16": Numbers.BF16}  # fmt: skip
"""What a row's ``precision`` computes in (amp: fp16, with what must stay in fp32)."""


@cache
def roof_of_device(device: str) -> Roof:
    """By the data sheet. Raises KeyError for another device."""
    return roofs(platforms.shipped())[PLATFORM[device]]
