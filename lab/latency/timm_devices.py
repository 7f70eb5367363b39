"""The devices of the measurements as Berth's platforms."""

from __future__ import annotations

from functools import cache

from berth.predictor.hardware import platforms
from berth.predictor.hardware.catalogue import platform_named
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roofs

OWN_CPU = "epyc-genoa-vm"
"""Where our own runs were measured, on one core."""
DEVICES = ("3090", "5090", "pro6000maxq", "i9_10940x", "i7_12700h")
"""timm's."""
GPUS = DEVICES[:3]
NUMBERS = {"fp32": Numbers.FP32, "amp": Numbers.FP16, "amp_bf16": Numbers.BF16,
           "bf16": Numbers.BF16}  # fmt: skip
"""What a row's ``precision`` computes in (amp: fp16, with what must stay in fp32)."""


@cache
def platform_of(device: str) -> str:
    """Return the shipped platform of a device. Raises UsageError where there is none."""
    return platform_named(device, platforms.shipped()).name


@cache
def roof_of_device(device: str) -> Roof:
    """Return the roof by the data sheet. Raises UsageError for a device that no platform is of."""
    return roofs(platforms.shipped())[platform_of(device)]
