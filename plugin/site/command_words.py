"""Names the program of a job by the words of its commands: only a command's own word names it.

A script is split into simple commands (``a && b | c; d``). Of each, variables and what starts
another command (``srun -n 4``, ``singularity exec image.sif``, ``./gpu-wrapper.sh``) are passed
over, and variables that the script itself sets have their values; folders, arguments and text name
nothing: ``cd lammps``, ``./x --out lammps`` and ``echo lammps`` run no LAMMPS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from berth.plugin.site.schedulers import SCHEDULERS

_TOKENS = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\";|&()\\])+|[;|&()\n]", re.DOTALL)
_ENDS = frozenset(";|&()\n")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})$")
_WHICH = re.compile(r"\$\(\s*(?:which|command -v)\s+([\w.+-]+)\s*\)|`which ([\w.+-]+)`")
_HEREDOC = re.compile(r"<<-?\s*[\"'\\]?(\w+)")
_WHOLE_OPTION = re.compile(r"-\w\d+$|--[\w-]+=|--$")
"""Options that hold their value, after which a word is the command."""
_OPTIONS_OF_NAMES = frozenset(
    ("-J", "--job-name", "-p", "--partition", "-A", "--account", "-C", "--constraint", "-q",
     "--qos", "-o", "--output", "-e", "--error", "-D", "--chdir", "-w", "--nodelist", "-B",
     "--bind", "--name")
)  # fmt: skip
"""Options whose value may be a program's name, which is then no command."""
_STARTERS = frozenset(
    ("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "prterun", "ibrun", "aprun",
     "jsrun", "lrun", "mpprun", "mympirun", "mpirun_rsh", "omplace", "uenv", "charmrun", "time",
     "exec", "nohup", "env", "nice", "timeout", "numactl", "taskset", "stdbuf", "hwloc-bind",
     "singularity", "apptainer", "podman", "docker", "shifter", "sarus", "enroot", "perf", "nsys",
     "ncu", "likwid-perfctr", "if", "then", "do", "else", "!",
     *SCHEDULERS.own())
)  # fmt: skip
"""Commands that start the command in their arguments."""
_WRAPPER = re.compile(r"[\w-]*(?:wrap|bind|affinity|select_?gpu)[\w-]*(?:\.sh)?$")
"""Scripts of sites and users that do so: they choose the cores or GPUs of each task."""
_OWN_WORDS = frozenset(("exec", "run", "start", "submit", "stat", "record", "profile"))
"""Words of ``_STARTERS`` themselves, before the command."""
_IMAGE = re.compile(r"\.(?:sif|simg|sqsh|sqfs)$|://|^[\w./-]+:[\w.-]+$")

_PROGRAMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(rf"(?:{words})$"))
    for name, words in (
        ("vasp_{}", r"vasp_(std|gam|ncl)(?:_\w+)?"),
        ("vasp", "vasp"),
        ("lammps", r"lmp(?:_\w+)?|lammps"),
        (
            "gromacs-mdrun",
            "(?:gmx(?:_mpi)?(?:_d)?|gmx_threads_AVX_256) mdrun|mdrun(?:[-_]mpi)?(?:_d)?",
        ),
        ("cp2k", r"cp2k(?:\.[ps](?:opt|smp|dbg))?"),
        ("namd", r"namd[23](?:_\w+)?"),
        ("espresso-{}", r"(pw|cp|ph|neb|pp|dos|projwfc|turbo_lanczos|hp)\.x"),
        ("orca", "orca"),
        ("amber-{}", r"(pmemd|sander)(?:\.(?:cuda|hip))?(?:_\w+)?(?:\.MPI)?"),
        ("nwchem", "nwchem"),
        ("gaussian", r"g(?:09|16)(?:_\w+)?"),
        ("siesta", "siesta"),
        ("abinit", "abinit"),
        ("wrf", r"wrf\.exe"),
        ("openfoam-{}", r"(\w*Foam)"),
        ("torchrun", r"torchrun|python3? -m torch\.distributed\.(?:run|launch)"),
        ("vllm", r"vllm (?:serve|bench)|python3? -m vllm\.\S+"),
        ("dask-worker", r"dask-worker|dask worker|python3? -m distributed\.cli\.dask_worker"),
        ("parsl-workers", r"process_worker_pool(?:\.py)?"),
        ("jupyter", r"jupyter(?:hub)?[- ](?:lab|notebook|server|singleuser)"),
    )
)
_HINT = re.compile(
    r"vasp|lmp|lammps|gmx|mdrun|cp2k|namd|\.x\b|orca|pmemd|sander|nwchem|g09|g16|siesta|abinit|"
    r"wrf\.exe|Foam|torch|vllm|dask|process_worker_pool|jupyter"
)
"""One of these is in every text that names a program: others are passed over quickly."""


def program_in(command: str) -> str:
    """Return the program that a job's commands run: the first that is known; empty: none is."""
    if not _HINT.search(command):
        return ""
    named = (_named(words) for words in _commands(command))
    return next((name for name in named if name), "")


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without quotes, and with the values of variables that
    were set before."""
    values: dict[str, list[str]] = {}
    words: list[str] = []
    for token in (*_TOKENS.findall(_code(text)), "\n"):
        if token not in _ENDS:
            word = token.replace('"', "").replace("'", "")
            variable = _VARIABLE.match(word)
            words += values.get("".join(variable.groups("")), [word]) if variable else [word]
            continue
        if words:
            for word in words[words[0] == "export" :]:
                assigned = _ASSIGNMENT.match(word)
                if assigned is None:
                    break
                values[assigned[1]] = word[assigned.end() :].split()
            yield words
        words = []


def _code(text: str) -> str:
    """Return the lines of a script without comments, and without text that is input of commands."""
    lines: list[str] = []
    until = ""
    for line in _WHICH.sub(r"\1\2", text.replace("\\\n", " ")).split("\n"):
        if until:
            until = "" if line.strip() == until else until
        elif not line.lstrip().startswith("#"):
            lines.append(line)
            begun = _HEREDOC.search(line)
            until = begun[1] if begun else ""
    return "\n".join(lines)


def _named(words: Sequence[str]) -> str:
    """Return the program of one simple command; empty: it is not known."""
    is_started = False
    for place, word in enumerate(words):
        if _ASSIGNMENT.match(word):
            continue
        base = word.rpartition("/")[2]
        if base in _STARTERS or (is_started and _WRAPPER.match(base)):
            is_started = True
            continue
        if is_started and (word.startswith(("-", "+")) or _is_no_command(word)):
            continue
        before = words[place - 1] if place else ""
        if is_started and before in _OPTIONS_OF_NAMES:
            continue
        name = _known(base, words[place + 1 :])
        may_be_value = before.startswith(("-", "+")) and not _WHOLE_OPTION.match(before)
        if name or not (is_started and may_be_value and "/" not in word):
            return name
    return ""


def _is_no_command(word: str) -> bool:
    """Return whether a word after what starts a command is a number, a variable, an image, or a
    word of that command's own."""
    is_variable = word.startswith("$") and "/" not in word
    return is_variable or word[:1].isdigit() or word in _OWN_WORDS or bool(_IMAGE.search(word))


def _known(base: str, arguments: Sequence[str]) -> str:
    """Return the name of a program by its file's name, with up to two words after it."""
    for count in (0, 1, 2):
        text = " ".join((base, *arguments[:count]))
        for name, pattern in _PROGRAMS:
            match = pattern.match(text)
            if match is not None:
                return name.format(*match.groups(default=""))
    return ""
