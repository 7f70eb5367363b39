"""The devices of timm's measurements, and the Berth platform of each."""

from __future__ import annotations

from functools import cache

from berth.predictor.hardware import platforms
from berth.predictor.hardware.catalogue import platform_named
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roofs

OWN_CPU = "epyc-genoa-vm"
"""Platform of our own runs, which used one core."""
DEVICES = ("3090", "5090", "pro6000maxq", "i9_10940x", "i7_12700h")
"""Devices of timm's measurements, as its files name them."""
GPUS = DEVICES[:3]
NUMBERS = {"fp32": Numbers.FP32, "amp": Numbers.FP16, "amp_bf16": Numbers.BF16,
           "bf16": Numbers.BF16}  # fmt: skip
"""Number format of each ``precision`` (amp: fp16, and fp32 for operators that need it)."""


@cache
def platform_of(device: str) -> str:
    """Return the name of a device's shipped platform. Raises UsageError where there is none."""
    return platform_named(device, platforms.shipped()).name


@cache
def roof_of_device(device: str) -> Roof:
    """Return the roofline limits of a device by its data sheet.

    Raises UsageError for a device without a shipped platform.
    """
    return roofs(platforms.shipped())[platform_of(device)]
