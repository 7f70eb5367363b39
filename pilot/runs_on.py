"""Detect the hardware that a program needs, from its files and its run; users can override it.

Evidence: the architecture in the ELF header, linked and mapped libraries, ELF sections with GPU
code (for statically linked CUDA), the launcher's arguments, environment variables of MPI and Slurm.
"""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from shutil import which

from berth.pilot.instruction_sets import NOT_NAMED, needed, unknown
from berth.pilot.launch import LAUNCHERS, ProcessResult
from berth.pilot.needs import Elf, is_system, needed_sets, read_elf
from berth.pilot.profile import RunsOn, Target
from berth.pilot.units import whole_number

CUDA_LIBRARY = re.compile(r"lib(cuda|cudart|cublas|cudnn|cufft|cusparse|cusolver|nccl)\b.*\.so")
HIP_LIBRARY = re.compile(r"lib(amdhip64|hsa-runtime64|rocblas|MIOpen|rccl)\b.*\.so")
CUDA_SECTIONS = frozenset({".nv_fatbin", ".nvFatBinSegment", "__nv_module_id"})
HIP_SECTIONS = frozenset({".hip_fatbin", ".hipFatBinSegment"})
REMOTE_LAUNCHERS = frozenset({"srun", "jsrun", "sbatch", "ssh", "docker"})
RANK_FLAGS = frozenset({"-n", "-np", "--np", "--ntasks", "--n"})
RANK_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS")
CONTAINERS = frozenset({"apptainer", "singularity", "docker", "podman", "ch-run", "enroot"})


@dataclass(frozen=True, slots=True)
class Overrides:
    """The user's values that replace detected hardware needs; empty or None: detect."""

    targets: tuple[Target, ...] = ()
    needs: tuple[str, ...] = ()
    threads: int | None = None
    ranks: int | None = None
    follows_shape: bool = False


def detect(
    command: Sequence[str],
    env: Mapping[str, str],
    outcome: ProcessResult,
    *,
    gpus_used: int = 0,
    cores_used: int = 1,
    overrides: Overrides,
) -> tuple[RunsOn, tuple[str, ...]]:
    """Return the hardware that a program needs, and warnings about uncertain detections.

    ``cores_used``: how many cores its processes kept busy on average, rounded up; ranks that it
    launches share them.
    """
    program = Path(command[0])
    files = dict.fromkeys((program, *(Path(name) for name in outcome.executables)))
    own_files = [path for path in files if not is_system(str(path))]  # those have no GPU code
    facts = [fact for path in own_files if (fact := read_elf(path)) is not None]
    targets, warnings = _targets(facts, outcome, gpus_used)
    named = which(command[0], path=env.get("PATH")) or command[0]
    own = (os.path.realpath(named), *outcome.executables)
    sets = needed_sets(own, outcome.libraries)
    if overrides.needs:  # what the pilot cannot name, its user has named
        sets = tuple(name for name in sets if name != NOT_NAMED)
    if overrides.targets:
        targets, warnings = overrides.targets, ()
    runs_on = RunsOn(
        targets=targets,
        architecture=facts[0].machine if facts else platform.machine(),
        instruction_sets=needed((*sets, *overrides.needs)),
        threads=overrides.threads
        or max(
            1,
            math.ceil(cores_used / ranks_of(command, {})),
            outcome.threads_busy or outcome.threads_peak,
        ),
        ranks=overrides.ranks or ranks_of(command, env),
        gpus=gpus_used,
        container=container_of(command),
        follows_shape=overrides.follows_shape or None,
    )
    if NOT_NAMED in sets:
        warnings = (
            *warnings,
            "the pilot cannot name all instructions that the program needs: places rank last but "
            "where it ran; --needs x86-64-v3 (or what it is built for) names them",
        )
    if strange := unknown(overrides.needs):
        warnings = (
            *warnings,
            f"--needs {','.join(strange)}: no instruction set of that name is known; kept",
        )
    remote = PurePath(command[0]).name
    if remote in REMOTE_LAUNCHERS:
        warnings = (
            *warnings,
            f"{remote} starts the program outside of this process tree, where it is not counted: "
            f"put the pilot inside, as in: {remote} ... berth pilot run -- ./app",
        )
    return runs_on, warnings


def _targets(
    facts: list[Elf], outcome: ProcessResult, gpus_used: int
) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    names = {PurePath(path).name for path in outcome.libraries}
    names |= {name for fact in facts for name in fact.needed}
    sections = {name for fact in facts for name in fact.sections}
    cuda = any(CUDA_LIBRARY.match(name) for name in names) or bool(sections & CUDA_SECTIONS)
    hip = any(HIP_LIBRARY.match(name) for name in names) or bool(sections & HIP_SECTIONS)
    gpu_targets = ((Target.CUDA,) if cuda else ()) + ((Target.HIP,) if hip else ())
    if gpus_used:
        return gpu_targets or (Target.CUDA,), ()
    if not gpu_targets:
        return (Target.CPU,), ()
    kinds = " and ".join(target.value for target in gpu_targets)
    warning = (
        f"the program has {kinds} code but used no GPU here: taken to run on cpu and {kinds}; "
        f"say otherwise with --runs-on {gpu_targets[0].value}"
    )
    return (Target.CPU, *gpu_targets), (warning,)


def behind_env(command: Sequence[str]) -> Sequence[str]:
    """Return the command from its launcher on, if ``env`` starts that; else the command."""
    if PurePath(command[0]).name == "env":
        for index, word in enumerate(command):
            if PurePath(word).name in LAUNCHERS | REMOTE_LAUNCHERS:
                return command[index:]
    return command


def ranks_of(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Return the number of MPI ranks, from the launcher's arguments or else the environment."""
    command = behind_env(command)
    name = PurePath(command[0]).name
    words = list(command[1:])
    if name == "flux" and words[:1] and words[0] in ("run", "submit"):
        name, words = "srun", words[1:]
    if name in LAUNCHERS:
        for index, word in enumerate(words):
            flag, equals, value = word.partition("=")
            if flag not in RANK_FLAGS:
                continue
            text = value if equals else (words[index + 1] if index + 1 < len(words) else "")
            return _count(text) or 1
    return next((count for key in RANK_VARIABLES if (count := _count(env.get(key, "")))), 1)


def is_rank(env: Mapping[str, str]) -> bool:
    """Return whether this process is one of several ranks of a parallel launch."""
    return any((_count(env.get(key, "")) or 1) > 1 for key in RANK_VARIABLES)


def container_of(command: Sequence[str]) -> str | None:
    """Return the container image that the command names, or None."""
    name = PurePath(command[0]).name
    image = next((w.partition("=")[2] for w in command if w.startswith("--container-image=")), None)
    if image or name not in CONTAINERS:
        return image or None
    words = [word for word in command[1:] if not word.startswith("-")]
    if name != "ch-run" and words and words[0] in ("exec", "run", "shell", "start"):
        words = words[1:]
    marked = (w for w in words if re.search(r"\.(sif|simg|sqsh|img)$|://", w) or ":" in w)
    return next(marked, words[0] if words else None)


def _count(text: str) -> int | None:
    return whole_number(text, 10_000_000) or None
