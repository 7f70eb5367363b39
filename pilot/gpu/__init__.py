"""The GPU benchmark: rates of a GPU, and times of reference kernels on it, without a compiler.

The kernels (``kernels.cu``) are compiled at run time by the vendor's own library (NVRTC, HIPRTC),
which comes with CUDA, ROCm, PyTorch, or the extra ``berth[gpu]``.
"""
