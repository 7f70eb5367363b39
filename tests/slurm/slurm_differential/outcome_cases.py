"""Jobs that Berth once broke although they were taken and started, by name, with what is right.

A case is never removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slurm_differential.outcome_worlds import CLIENT, NO_CLIENT
from slurm_differential.outcomes import OutcomeAsk
from slurm_differential.worlds import World

_COPY, _BATCH = "{tools}/copy a", "{tools}/copy batch"
_STEP = f"srun {_COPY}"
_NO_GPU = f"#!/bin/bash\n#SBATCH --gres=none\n#SBATCH -n 2\n{_BATCH}\n"
_LATIN_1 = b"# r\xe9sultat\n".decode(errors="surrogateescape")
_HET = f"#!/bin/bash\n#SBATCH -n 2\n#SBATCH hetjob\n#SBATCH -n 4\nsrun --het-group=0,1 {_COPY}\n"
_PACKED = "for i in 1 2 3 4; do srun -n1 --exact --mem-per-cpu=20 {tools}/meet 4 & done; wait"
_HOLD = "srun -n1 {tools}/hold 900"


@dataclass(frozen=True)
class OutcomeCase:
    """One job; ``copies``: how many of each label are right; ``refused``: by Slurm, as written."""

    name: str
    ask: OutcomeAsk
    copies: Mapping[str, int] = field(default_factory=dict)
    memory_mb: float = 0.0
    """At least."""
    steps_at_once: int = 0
    refused: bool = False
    world: World = CLIENT

    def __post_init__(self) -> None:
        object.__setattr__(self, "ask", replace(self.ask, form=("", "", self.name)))


def _case(
    name: str,
    words: str,
    body: str,
    copies: Mapping[str, int] | None = None,
    *,
    workload: str = "gpuapp",
    memory_mb: float = 0.0,
    steps_at_once: int = 0,
    refused: bool = False,
    world: World = CLIENT,
    partition: str = "auto",
    **ask: Any,
) -> OutcomeCase:
    where = ("-p", partition) if partition else ()
    if not body.startswith("#!"):
        body = f"{body}\nexit $?\n"
    asked = OutcomeAsk((*where, *words.split()), workload=workload, body=body, **ask)
    return OutcomeCase(name, asked, copies or {}, memory_mb, steps_at_once, refused, world)


OUTCOME_CASES = (
    _case("srun_n8: hard-coded srun -n 8", "-n 8 -t 10", f"srun -n 8 {_COPY}", {"a": 8}),
    _case("mpirun8: hard-coded mpirun -np 8", "-n 8 -t 10", f"{{tools}}/mpirun -np 8 {_COPY}",
          {"a": 8}),
    _case("srun_ntasks_var: srun -n $SLURM_NTASKS", "-n 8 -t 10", f"srun -n $SLURM_NTASKS {_COPY}",
          {"a": 8}),
    _case("srun_c: srun -c 8 as in the header", "-n 1 -c 8 -t 10", f"srun -n1 -c 8 {_COPY}",
          {"a": 1}),
    _case("packed: four steps at once", "-n 4 -t 10 --mem-per-cpu=120", _PACKED, {"met": 4},
          steps_at_once=4),
    _case("defmem: no memory asked", "-n 8 -t 10", _BATCH, memory_mb=1600, workload="biggpu"),
    _case("defmem_c: no memory asked, -c 8", "-c 8 -t 10", _BATCH, memory_mb=1600,
          workload="biggpu"),
    _case("defmem_cpu: a smaller default there", "-n 8 -t 10", _BATCH, memory_mb=3072,
          workload="bigcpu"),
    _case("defmem_node: a default by node there", "-n 8 -t 10", _BATCH, memory_mb=1600,
          workload="nodeapp"),
    _case("defmem_gpu: a default by GPU there", "-n 8 -t 10", _BATCH, memory_mb=1600,
          workload="gpumemapp"),
    _case("mem_small: less is asked than is predicted", "-n 8 --mem=2G -t 10", _BATCH,
          memory_mb=2048, workload="bigcpu"),
    _case("fan: -c 4, to whole nodes", "-c 4 -t 10", _STEP, {"a": 1}, workload="wholeapp"),
    _case("fan_env: -c 4, SRUN_CPUS_PER_TASK exported, to whole nodes", "-c 4 -t 10",
          f"export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n{_STEP}", {"a": 1},
          workload="wholeapp"),
    _case("fan_c: -c 4, srun -c 4, to whole nodes", "-c 4 -t 10", f"srun -c 4 {_COPY}", {"a": 1},
          workload="wholeapp"),
    _case("fan_mpirun: -c 4, mpirun on all slots, to whole nodes", "-c 4 -t 10",
          f"{{tools}}/mpirun {_COPY}", {"a": 1}, workload="wholeapp"),
    _case("fan_gpu: -c 2, srun -c $SLURM_CPUS_PER_TASK", "-c 2 -t 10",
          f"srun -c $SLURM_CPUS_PER_TASK {_COPY}", {"a": 1}),
    _case("memcpu_inner: inner sbatch", "-n 4 --mem-per-cpu=120",
          "sbatch -p cpu --mem=300 -o /dev/null "
          '--wrap "SEEN_AS=$SLURM_JOB_ID {tools}/copy inner"', {"inner": 1}),
    _case("memdef_inner: inner sbatch of a job without memory", "-n 4",
          "sbatch -p cpu --mem-per-cpu=60 -o /dev/null "
          '--wrap "SEEN_AS=$SLURM_JOB_ID {tools}/copy inner"', {"inner": 1}),
    _case("inner_nodes: -c 2, inner sbatch of two nodes", "-c 2", "sbatch -p cpu -N2 -o /dev/null "
          '--wrap "SEEN_AS=$SLURM_JOB_ID srun {tools}/copy inner"', {"inner": 2}),
    _case("inner_cores: -N2 -c2, inner sbatch -c2", "-N2 -c2", "sbatch -p cpu -c2 -o /dev/null "
          '--wrap "SEEN_AS=$SLURM_JOB_ID srun -c2 {tools}/copy inner"', {"inner": 1}),
    _case("spread_mem: memory of a node, to two small nodes", "-n2 -c4 --mem=600",
          "{tools}/hold 420", {"held": 1}, workload="smallapp"),
    _case("ntasks_unset: -N2, srun -n ${SLURM_NTASKS:-1}, to whole nodes", "-N2 -c2",
          f"srun -n ${{SLURM_NTASKS:-1}} {_COPY}", {"a": 1}, workload="wholeapp"),
    _case("mincpus: cores of a node, and memory by core", "--mincpus=4 --mem-per-cpu=120", _BATCH,
          memory_mb=480),
    _case("nested_mem: --mem-per-cpu, then srun", "-n 4 --mem-per-cpu=120", _STEP, {"a": 4}),
    _case("nested_mem_node: no memory, then srun --mem-per-cpu", "-n 4",
          f"srun --mem-per-cpu=20 {_COPY}", {"a": 4}),
    _case("oom: 900 MB held of 1,600, to a GPU", "-n 8 -t 10", _HOLD, {"held": 1},
          workload="midgpu"),
    _case("oom_cpu: 900 MB held of 1,600, to a smaller default", "-n 8 -t 10", _HOLD, {"held": 1},
          workload="midcpu"),
    _case("env_profile: BERTH_WORKLOAD, the comment is taken", "-n 4", _STEP, {"a": 4},
          comment="pytorch", by_environment=True),
    _case("env_none: BERTH_WORKLOAD, and nothing is exported", "-n 4 --export=NONE", _STEP,
          {"a": 4}, comment="pytorch", by_environment=True),
    _case("env_some: BERTH_WORKLOAD, and not all is exported",
          "-n 4 --export=HOME,SLURM_CONF,PATH", _STEP, {"a": 4}, comment="pytorch",
          by_environment=True),
    _case("latin1: --gres=none in a Latin-1 script", "",
          _NO_GPU.replace("#SBATCH -n 2\n", f"#SBATCH -n 2\n{_LATIN_1}"), {"batch": 1},
          world=NO_CLIENT),
    _case("big64: --gres=none in a script of 66 KB", "", _NO_GPU + "# pad" * 13_300 + "\n",
          {"batch": 1}, world=NO_CLIENT),
    _case("big1m: a script of 1 MB", "-n 2", f"# {'x' * 1_000_000}\n{_STEP}", {"a": 2},
          world=NO_CLIENT),
    _case("manyargs: --gres=none and 300 arguments", "", _NO_GPU, {"batch": 1}, world=NO_CLIENT,
          arguments=tuple(map(str, range(300)))),
    _case("plainnone: --gres=none in the script", "", _NO_GPU, {"batch": 1}, world=NO_CLIENT),
    _case("g0: --gpus-per-node=0", "--gpus-per-node=0 -n 2", _STEP, {"a": 2}, world=NO_CLIENT),
    _case("G0: --gpus=0", "--gpus=0 -n 2", _STEP, {"a": 2}, world=NO_CLIENT),
    _case("crlf: line ends of DOS", "", "#!/bin/bash\r\n#SBATCH -n 2\r\necho x\r\n", refused=True),
    _case("unicode: a name beyond ASCII", "-J Jöb-日本 -n 2", _STEP, {"a": 2}),
    _case("json_comment: the mark after JSON", "-n 4", _STEP, {"a": 4},
          comment='{"reaper":{"idle":"90"}} berth:MARK'),
    _case("json_in: the mark within JSON", "-n 4", _STEP, {"a": 4},
          comment='{"reaper":{"idle":"90"},"p":"berth:MARK"}'),
    _case("parsable", "-n 4 -t 10", _STEP, {"a": 4}, client="parsable"),
    _case("quiet", "-n 4 -t 10", _STEP, {"a": 4}, client="quiet"),
    _case("wait", "-n 4 -t 10", _STEP, {"a": 4}, client="wait"),
    _case("stdin: /dev/stdin", "-n 4", _STEP, {"a": 4}, client="stdin"),
    _case("array of three", "-n 4 -t 10", _STEP, {"a": 12}, client="array"),
    _case("merged: both streams are read", "-n 4 -t 10", _STEP, {"a": 4}, client="merged"),
    _case("multi: -p auto,cpu", "-n 4", _STEP, {"a": 4}, partition="auto,cpu"),
    _case("multi2: -p cpu,gpu", "-n 4", _STEP, {"a": 4}, partition="cpu,gpu"),
    _case("het: two components", "", _HET, {"a": 6}),
    _case("srun from the login node", "-n1 -c2", _COPY, {"a": 1}, command="srun"),
    _case("srun of eight tasks from the login node", "-n8", _COPY, {"a": 8}, command="srun"),
    _case("salloc", "-n1 -c4", _STEP, {"a": 1}, command="salloc"),
    _case("gpu_known: --gres=gpu:1 of a known program", "--gres=gpu:1 -c 8", _STEP, {"a": 1}),
    _case("gpu_mem: memory by GPU", "--gres=gpu:1 -c 8 --mem-per-gpu=900", _STEP, {"a": 1},
          memory_mb=900),
    _case("node_mem: memory of a node where tasks per node make two", "-n8 --ntasks-per-node=4 "
          "--mem=2G", _STEP, {"a": 8}, memory_mb=4096, workload="threadsapp"),
    _case("exclusive_cpu: memory by core on all cores of a node, to small nodes",
          "--exclusive -N1 -n4 --mem-per-cpu=300", _STEP, {"a": 4}, memory_mb=32 * 300,
          workload="smallapp"),
    _case("all_mem: --mem=0, to small nodes", "-n 4 --mem=0", _STEP, {"a": 4}, memory_mb=128_000,
          workload="smallapp"),
)  # fmt: skip
