"""A fleet of GPUs without GPUs: builds the C library beside this file and speaks to it.

The library has NVML's symbols, so the real ``pynvml`` loads it as it would load the driver's.
Its fleet is a file: several processes see the same GPUs, and a killed one leaves them as they are.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SONAME = "libnvidia-ml.so.1"
COMPUTE, GRAPHICS, MPS = range(3)

PROFILE_IDS = {
    "a30": {"1g.6gb": 14, "1g.6gb+me": 21, "2g.12gb": 5, "2g.12gb+me": 6, "4g.24gb": 0},
    "a100-40": {"1g.5gb": 19, "1g.5gb+me": 20, "1g.10gb": 15, "2g.10gb": 14, "3g.20gb": 9,
                "4g.20gb": 5, "7g.40gb": 0},
    "h100-80": {"1g.10gb": 19, "1g.10gb+me": 20, "1g.20gb": 15, "2g.20gb": 14, "3g.40gb": 9,
                "4g.40gb": 5, "7g.80gb": 0},
    "h200": {"1g.18gb": 19, "1g.18gb+me": 20, "1g.35gb": 15, "2g.35gb": 14, "3g.71gb": 9,
             "4g.71gb": 5, "7g.141gb": 0},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """One instance of the fleet as the driver would know it."""

    gpu: int
    profile: str
    start: int
    computes: int
    serial: int
    """Never used twice: an instance that was destroyed and made again has another one."""
    processes: int


def build(folder: Path) -> Path:
    """Compile the library into ``folder``; the path of that folder's library."""
    library = folder / SONAME
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the fake NVML library needs a C compiler")
    sources = sorted(map(str, HERE.glob("*.c")))
    subprocess.run(
        [compiler, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
         f"-Wl,-soname,{SONAME}", "-o", library, *sources],
        check=True,
    )  # fmt: skip
    return library


class FakeFleet:
    """The fleet in one file, and this process's view of the library."""

    def __init__(self, library: Path, state: Path) -> None:
        self.library_folder = library.parent
        self.state = state
        self.models: list[str] = []
        os.environ["FAKE_NVML_STATE"] = str(state)
        # Loaded under its soname, so that pynvml's dlopen("libnvidia-ml.so.1") finds this one.
        self._c = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._c.fake_describe.argtypes = [ctypes.c_char_p, ctypes.c_uint]
        if self._c.fake_open() != 0:
            raise RuntimeError(f"cannot open {state}")
        self._c.fake_clear()
        self.faults("")

    @property
    def environment(self) -> dict[str, str]:
        """What another process needs to see the same fleet."""
        return {"LD_LIBRARY_PATH": str(self.library_folder), "FAKE_NVML_STATE": str(self.state)}

    def reset(self, *models: str, mig: bool = True) -> None:
        """GPUs of these models, nothing on them, no faults."""
        self.faults("")
        self._c.fake_clear()
        self.models = list(models)
        for model in models:
            assert self._c.fake_add_gpu(model.encode(), int(mig)) >= 0, model

    def create(self, gpu: int, profile: str, start: int, *, compute: bool = True) -> None:
        """An instance made by somebody else."""
        number = PROFILE_IDS[self.models[gpu]][profile]
        assert self._c.fake_create(gpu, number, start, int(compute)) == 0, (gpu, profile, start)

    def fill(self, gpu: int, layout: Iterable[tuple[str, int]]) -> None:
        """Several instances at once."""
        for profile, start in layout:
            self.create(gpu, profile, start)

    def start_process(self, gpu: int, start: int, pid: int, kind: int = COMPUTE) -> None:
        """A process on the instance that starts there."""
        assert self._c.fake_start_process(gpu, start, pid, kind) == 0, (gpu, start)

    def end_process(self, pid: int) -> None:
        """That process ends."""
        self._c.fake_end_process(pid)

    def power_loss(self, *, mig_survives: bool = True) -> None:
        """The machine starts anew: no instances, no processes."""
        self._c.fake_power_loss(int(mig_survives))

    def faults(self, text: str) -> None:
        """Faults for this process from now on (see faults.c); calls are counted anew."""
        self._c.fake_faults(text.encode())

    @property
    def calls(self) -> int:
        """NVML calls of this process since ``faults``."""
        return int(self._c.fake_calls())

    @property
    def touched(self) -> int:
        """Attempts to destroy an instance that a process was using."""
        return int(self._c.fake_touched())

    def seen(self) -> tuple[Seen, ...]:
        """Every instance there is."""
        buffer = ctypes.create_string_buffer(65536)
        assert self._c.fake_describe(buffer, len(buffer)) >= 0
        rows = (line.split() for line in buffer.value.decode().splitlines())
        return tuple(Seen(int(r[0]), r[1], *map(int, r[2:])) for r in rows)

    def layout(self) -> frozenset[tuple[int, str, int, int]]:
        """GPU, profile, start and number of compute instances of every instance."""
        return frozenset((s.gpu, s.profile, s.start, s.computes) for s in self.seen())

    def running(self) -> frozenset[tuple[int, int]]:
        """GPU and serial of every instance with a process on it."""
        return frozenset((s.gpu, s.serial) for s in self.seen() if s.processes)
