"""The devices of timm's measurements as roofs, from their makers' data sheets.

GPUs: dense matrix rates with fp32 accumulation, which PyTorch uses; the second-level cache is
taken at four times the memory. CPUs: all cores at their sustained vector clock.
"""

from __future__ import annotations

from berth.predictor.graphs.roofs import CPU_CALL_S, Numbers, Roof

_LAUNCH_S = 5e-6
_SUSTAINED = 0.9
_CACHE_RATE = 4.0


def _roof(
    name: str, *, memory: tuple[float, float, float], rates: tuple[float, float], power_w: float,
    gpu: bool = True,
) -> Roof:  # fmt: skip
    """``memory``: GB, GB/s, MB of the last cache; ``rates``: vector and half-precision TFLOP/s."""
    capacity_gb, rate_gb, l2_mb = memory
    vector, half = (rate * 1e12 for rate in rates)
    dram = _SUSTAINED * rate_gb * 1e9
    matrix = dict.fromkeys(Numbers, half)
    matrix |= {Numbers.FP32: vector, Numbers.TF32: max(half / 2, vector)}
    return Roof(
        platform=name, is_gpu=gpu, vector_flops=vector, matrix_flops=matrix, dram_bytes=dram,
        l2_bytes=_CACHE_RATE * dram, l1_bytes=4 * _CACHE_RATE * dram, l2_capacity=l2_mb * 2**20,
        launch_s=_LAUNCH_S if gpu else CPU_CALL_S, memory_bytes=capacity_gb * 2**30,
        price_per_hour=None, power_w=power_w, share=1.0, parent=None, benchmarked=False,
        native=frozenset(Numbers) - {Numbers.FP8} if gpu else frozenset({Numbers.FP32}),
    )  # fmt: skip


ROOFS = {
    one.platform: one
    for one in (
        _roof("3090", memory=(24, 936, 6), rates=(35.6, 71), power_w=350),
        _roof("5090", memory=(32, 1792, 96), rates=(104.8, 209.5), power_w=575),
        _roof("pro6000maxq", memory=(96, 1792, 128), rates=(110, 439), power_w=300),
        _roof("i9_10940x", memory=(64, 94, 19.25), rates=(2.7, 2.7), power_w=165, gpu=False),
        _roof("i7_12700h", memory=(32, 76.8, 24), rates=(0.99, 0.99), power_w=45, gpu=False),
    )
}
"""NVIDIA RTX 3090, RTX 5090 and RTX PRO 6000 Blackwell Max-Q; Intel i9-10940X (14 cores, AVX-512,
four channels of DDR4-2933) and i7-12700H (6 + 8 cores, AVX2, two channels of DDR5-4800). The CPUs'
memory is not known; nothing here depends on it."""
NUMBERS = {"fp32": Numbers.FP32, "amp": Numbers.FP16, "amp_bf16": Numbers.BF16,
           "bf16": Numbers.BF16}  # fmt: skip
"""What a row's ``precision`` computes in (amp: fp16, with what must stay in fp32)."""
