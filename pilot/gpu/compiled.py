"""Compile ``kernels.cu`` at run time; no compiler and no GPU is needed on the machine."""

from __future__ import annotations

import ctypes
from functools import partial
from importlib import resources
from typing import Any

from berth.pilot.errors import PilotError
from berth.pilot.gpu.libraries import Vendor, load_compiler


def source() -> str:
    """Return the text of ``kernels.cu``."""
    return (resources.files("berth.pilot.gpu") / "kernels.cu").read_text(encoding="utf-8")


def compiled(vendor: Vendor, architecture: str | None, text: str | None = None) -> bytes:
    """Return the kernels as the driver loads them.

    ``architecture``: the compiler's target; ``sm_90`` gives machine code, ``compute_90`` gives PTX.
    None: this machine's GPU (HIPRTC only). ``text``: another source than ``kernels.cu``.
    Raises ToolMissing without the vendor's compiler, PilotError with the compiler's message.
    """
    library = load_compiler(vendor)
    call = partial(_call, library, vendor)
    program = ctypes.c_void_p()
    words = source() if text is None else text
    call("CreateProgram", ctypes.byref(program), words.encode(), b"kernels.cu", 0, None, None)
    try:
        options = [*vendor.options]
        if architecture is not None:
            options.append(f"--gpu-architecture={architecture}")
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        compile_ = getattr(library, f"{vendor.compiler_prefix}CompileProgram")
        if compile_(program, len(options), array):
            log = _bytes(library, vendor, program, "ProgramLog").decode(errors="replace")
            said = next((line for line in log.splitlines() if "error" in line), "no reason given")
            raise PilotError(
                f"{vendor.name} does not compile the GPU kernels for {architecture or 'this GPU'}: "
                f"{said}"
            )
        code = "PTX" if (architecture or "").startswith("compute_") else vendor.code
        return _bytes(library, vendor, program, code)
    finally:
        getattr(library, f"{vendor.compiler_prefix}DestroyProgram")(ctypes.byref(program))


def _call(library: Any, vendor: Vendor, name: str, *arguments: object) -> None:
    status = getattr(library, f"{vendor.compiler_prefix}{name}")(*arguments)
    if status:
        raise PilotError(f"{vendor.name}: {name} failed with status {status}")


def _bytes(library: Any, vendor: Vendor, program: ctypes.c_void_p, result: str) -> bytes:
    """Return a result of the compiler, such as its log or the machine code."""
    size = ctypes.c_size_t()
    _call(library, vendor, f"Get{result}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    _call(library, vendor, f"Get{result}", program, buffer)
    return buffer.raw
