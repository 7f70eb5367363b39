"""Jobs that use what they are given, in the forms that users write: shape, memory, script, client.

A form's script is a text with ``{n}`` tasks and ``{c}`` cores a task as its header asks, and the
tools of ``job_tools/``. A copy whose label is ``thread`` or ``core`` is started by what the job was
given, ``node`` once on each node: these may be other numbers elsewhere, see ``outcomes.py``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from slurm_differential.outcome_worlds import (
    AUTO_MEMORY_MB_PER_CPU,
    FASTEST,
    FOLLOWING,
    FORECASTS,
)
from slurm_differential.outcomes import OutcomeAsk


@dataclass(frozen=True)
class Shape:
    """Tasks, cores and nodes as a user asks for them; 0: not said."""

    words: str = ""
    tasks: int = 0
    cpus: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    gpus: int = 0

    @property
    def copies(self) -> int:
        """Tasks that Slurm makes of it."""
        return self.tasks or max(1, self.nodes) * max(1, self.tasks_per_node)

    @property
    def cores(self) -> int:
        return self.copies * max(1, self.cpus)


SHAPES = (
    Shape(),
    Shape("-n1", tasks=1),
    Shape("-n2", tasks=2),
    Shape("-n3", tasks=3),
    Shape("-n4", tasks=4),
    Shape("-n8", tasks=8),
    Shape("-c2", cpus=2),
    Shape("-c4", cpus=4),
    Shape("-c8", cpus=8),
    Shape("-n1 -c8", tasks=1, cpus=8),
    Shape("-n1 -c4", tasks=1, cpus=4),
    Shape("-n2 -c4", tasks=2, cpus=4),
    Shape("-n4 -c2", tasks=4, cpus=2),
    Shape("-n6 -c1", tasks=6, cpus=1),
    Shape("-N1", nodes=1),
    Shape("-N2", nodes=2),
    Shape("-N1 -n4", tasks=4, nodes=1),
    Shape("-N2 -n4", tasks=4, nodes=2),
    Shape("-N1 -c4", cpus=4, nodes=1),
    Shape("-N2 -c2", cpus=2, nodes=2),
    Shape("-N2 --ntasks-per-node=2", nodes=2, tasks_per_node=2),
    Shape("-N1 --ntasks-per-node=4", nodes=1, tasks_per_node=4),
    Shape("-N1 --ntasks-per-node=8", nodes=1, tasks_per_node=8),
    Shape("-N2 --ntasks-per-node=2 -c2", nodes=2, tasks_per_node=2, cpus=2),
    Shape("--ntasks-per-node=4", tasks_per_node=4),
    Shape("-n8 --ntasks-per-node=4", tasks=8, tasks_per_node=4),
    Shape("-n4 --ntasks-per-node=4", tasks=4, tasks_per_node=4),
    Shape("-n4 --ntasks-per-core=1", tasks=4),
    Shape("-n4 --hint=nomultithread", tasks=4),
    Shape("-c2 --threads-per-core=1", cpus=2),
)
WHOLE_NODES = (
    Shape("--exclusive"),
    Shape("--exclusive -n4", tasks=4),
    Shape("--exclusive -N1 --ntasks-per-node=4", nodes=1, tasks_per_node=4),
    Shape("--exclusive -N2 --ntasks-per-node=2", nodes=2, tasks_per_node=2),
    Shape("--exclusive -c4", cpus=4),
)
RARE = (
    Shape("-n4 --mincpus=8", tasks=4),
    Shape("--mincpus=4"),
    Shape("-n4 --overcommit", tasks=4),
    Shape("-n4 --spread-job", tasks=4),
    Shape("-n4 --distribution=cyclic", tasks=4),
    Shape("-n2 --requeue", tasks=2),
    Shape("-N1-2 -n4", tasks=4),
    Shape("-N1-3 -n6", tasks=6),
    Shape("-n2 --ntasks-per-socket=2", tasks=2),
    Shape("-n4 --ntasks-per-socket=2", tasks=4),
    Shape("-n2 --constraint=intel", tasks=2),
    Shape("-c2 --constraint=intel", cpus=2),
)
ON_GPUS = (
    Shape("-n1 -c4 --gres=gpu:1", tasks=1, cpus=4, gpus=1),
    Shape("--gres=gpu:h200:1", gpus=1),
    Shape("--gpus=1", gpus=1),
    Shape("-n2 --gpus=2", tasks=2, gpus=2),
    Shape("-n2 --gpus-per-task=1", tasks=2, gpus=2),
    Shape("-N1 -n4 --gpus-per-node=2", tasks=4, nodes=1, gpus=2),
)

MEMORY = ("", "--mem=600", "--mem=2G", "--mem-per-cpu=120", "--mem-per-cpu=300")
ALL_MEMORY = "--mem=0"
GPU_MEMORY = "--mem-per-gpu=500"


@dataclass(frozen=True)
class Body:
    """What a script does; ``needs``: what its header must have said for it to work at all.

    Needs: ``n`` tasks, ``c`` cores a task, ``one`` task alone, ``many`` tasks, ``node`` a single
    node, ``little`` memory in all, ``multiple`` of two cores.
    """

    name: str
    text: str
    needs: str = ""


BODIES = (
    Body("srun", "srun {copy} a"),
    Body("srun -n N", "srun -n {n} {copy} a"),
    Body("srun --ntasks=N -c C", "srun --ntasks={n} --cpus-per-task={c} {copy} a"),
    Body("srun -n $SLURM_NTASKS", "srun -n $SLURM_NTASKS {copy} a", "n"),
    Body("srun -n $SLURM_NPROCS", "srun -n $SLURM_NPROCS {copy} a", "n"),
    Body("srun -n ${SLURM_NTASKS:-1}", "srun -n ${{SLURM_NTASKS:-1}} {copy} a"),
    Body("srun -n N-1", "srun -n1 {copy} head && srun -n $((SLURM_NTASKS - 1)) {copy} a", "n many"),
    Body("srun -c C", "srun -c {c} {copy} a"),
    Body("srun -n1 -c C", "srun -n1 -c {c} {copy} a"),
    Body("srun -n1 -c all", "srun -N1 -n1 -c {cores} {copy} a", "node"),
    Body("srun -c $SLURM_CPUS_PER_TASK", "srun -c $SLURM_CPUS_PER_TASK {copy} a", "c"),
    Body("srun -c ${SLURM_CPUS_PER_TASK:-1}", "srun -c ${{SLURM_CPUS_PER_TASK:-1}} {copy} a"),
    Body("srun --ntasks $SLURM_NTASKS -c $SLURM_CPUS_PER_TASK",
         "srun --ntasks $SLURM_NTASKS -c $SLURM_CPUS_PER_TASK {copy} a", "n c"),
    Body("SRUN_CPUS_PER_TASK exported",
         "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; srun {copy} a", "c"),
    Body("SRUN_CPUS_PER_TASK by default",
         "export SRUN_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-1}}; srun {copy} a"),
    Body("OMP_NUM_THREADS",
         "export OMP_NUM_THREADS=${{SLURM_CPUS_PER_TASK:-1}}; "
         "{workers} $OMP_NUM_THREADS thread"),
    Body("OMP_NUM_THREADS in a step",
         "export OMP_NUM_THREADS=${{SLURM_CPUS_PER_TASK:-1}}; "
         "srun {copy} a && srun -n1 {workers} $OMP_NUM_THREADS thread"),
    Body("workers by SLURM_CPUS_PER_TASK", "{workers} $SLURM_CPUS_PER_TASK thread", "c"),
    Body("workers, as the header says", "{workers} {c} worker"),
    Body("workers by SLURM_CPUS_ON_NODE", "{workers} $SLURM_CPUS_ON_NODE core"),
    Body("workers by SLURM_NTASKS", "{workers} $SLURM_NTASKS worker", "n"),
    Body("mpirun", "{mpirun} {copy} a", "node"),
    Body("mpirun -np N", "{mpirun} -np {n} {copy} a"),
    Body("mpirun -np $SLURM_NTASKS", "{mpirun} -np $SLURM_NTASKS {copy} a", "n"),
    Body("mpirun -np half", "{mpirun} -np $((SLURM_NTASKS / 2)) {copy} a", "n many"),
    Body("orted on each node",
         "srun --ntasks-per-node=1 --nodes=$SLURM_JOB_NUM_NODES --ntasks=$SLURM_JOB_NUM_NODES "
         "{copy} node"),
    Body("a step on each host",
         "for host in $(scontrol show hostnames $SLURM_JOB_NODELIST); do "
         "srun -w $host -N1 -n1 {copy} node || exit 3; done"),
    Body("packed --exact",
         "for i in $(seq {n}); do srun -n1 --exact {meet} {n} & done; wait", "many node"),
    Body("packed --exact --mem-per-cpu",
         "for i in $(seq {n}); do srun -n1 --exact --mem-per-cpu=20 {meet} {n} & done; wait",
         "many node"),
    Body("packed -N1 -n1 -c1 --exact --mem",
         "for i in $(seq {n}); do srun -N1 -n1 -c1 --exact --mem=30 {meet} {n} & done; wait",
         "many node"),
    Body("packed --exclusive",
         "for i in $(seq {n}); do srun --exclusive -n1 {meet} {n} & done; wait", "many node"),
    Body("packed -c C",
         "for i in $(seq {n}); do srun -n1 -c {c} --exact --mem-per-cpu=20 {meet} {n} & done; "
         "wait", "many node"),
    Body("packed by xargs",
         "seq {n} | xargs -P {n} -I% srun -n1 --exact --mem-per-cpu=20 {meet} {n}", "many node"),
    Body("packed --overlap",
         "for i in $(seq {n}); do srun -n1 --overlap {meet} {n} & done; wait", "many node"),
    Body("two halves at once",
         "srun -n $((SLURM_NTASKS / 2)) --exact --mem-per-cpu=20 {copy} a & "
         "srun -n $((SLURM_NTASKS / 2)) --exact --mem-per-cpu=20 {copy} b & wait %1 && wait %2",
         "n many node"),
    Body("no srun", "{copy} a"),
    Body("steps one after the other", "srun -n1 {copy} before && srun {copy} a && {copy} after"),
    Body("srun --multi-prog",
         "echo '* {copy} a' >conf.$SLURM_JOB_ID && srun -n {n} --multi-prog conf.$SLURM_JOB_ID && "
         "rm conf.$SLURM_JOB_ID"),
    Body("srun -N1 -n N", "srun -N1 -n {n} {copy} a", "node"),
    Body("srun -N -n by the environment",
         "srun -N $SLURM_JOB_NUM_NODES -n $SLURM_NTASKS {copy} a", "n"),
    Body("srun --ntasks-per-node", "srun --ntasks-per-node={n} {copy} a", "many node"),
    Body("srun --overlap", "srun --overlap -n {n} {copy} a"),
    Body("srun --overcommit", "srun -O -n {twice} {copy} a"),
    Body("srun -n1 at each end", "srun -n1 -N1 {copy} a && srun {copy} b && srun -n1 -N1 {copy} a"),
    Body("srun --kill-on-bad-exit", "srun --kill-on-bad-exit=1 --label -n {n} {copy} a >/dev/null"),
    Body("srun --cpu-bind=none", "srun --cpu-bind=none --distribution=block {copy} a"),
    Body("srun --export=NONE", "srun --export=NONE {copy} a"),
    Body("srun --export=ALL,X", "srun --export=ALL,X=1 {copy} a"),
    Body("srun --mem", "srun --mem=40 {copy} a"),
    Body("srun --mem=0", "srun --mem=0 {copy} a"),
    Body("srun --mem-per-cpu", "srun --mem-per-cpu=20 -n {n} {copy} a"),
    Body("srun without Slurm's variables",
         "unset SLURM_NTASKS SLURM_NPROCS SLURM_CPUS_PER_TASK; srun -n {n} {copy} a"),
    Body("a script that starts itself again", "sh -c 'srun -n {n} {copy} a; exit $?'"),
    Body("inner sbatch --mem",
         "sbatch -p cpu --mem=100 -o /dev/null --wrap \"SEEN_AS=$SLURM_JOB_ID {copy} inner\""),
    Body("inner sbatch --mem-per-cpu",
         "sbatch -p cpu --mem-per-cpu=50 -n2 -o /dev/null "
         "--wrap \"SEEN_AS=$SLURM_JOB_ID srun {copy} inner\""),
    Body("inner sbatch -n2", "sbatch -p cpu -n2 -o /dev/null "
         "--wrap \"SEEN_AS=$SLURM_JOB_ID srun {copy} inner\""),
    Body("inner sbatch -N2", "sbatch -p cpu -N2 -o /dev/null "
         "--wrap \"SEEN_AS=$SLURM_JOB_ID srun {copy} inner\""),
    Body("inner sbatch -c2", "sbatch -p cpu -c2 -o /dev/null "
         "--wrap \"SEEN_AS=$SLURM_JOB_ID srun -c2 {copy} inner\""),
    Body("inner sbatch to auto", "sbatch -p auto -n2 -o /dev/null "
         "--wrap \"SEEN_AS=$SLURM_JOB_ID srun -n2 {copy} inner\""),
    Body("memory held by the script", "{hold} {memory}", "little"),
    Body("memory held by a step", "srun -n1 {hold} {memory}", "little"),
    Body("memory held by all ranks", "srun -n {n} {hold} {share}", "little n"),
)  # fmt: skip

CLIENTS = (
    "file", "file", "header", "header", "stdin", "parsable", "wrap", "array", "merged",
    "environment",
)  # fmt: skip
"""How it is submitted; ``merged``: both streams are read as one, as R's batchtools does."""
_MEMORY_BODY_MB = 640
"""A job that holds more is not drawn: many run at once."""
_COMMON = tuple(FASTEST.values())
_OTHERS = (*(f.workload for f in FORECASTS if f.workload not in _COMMON), *(FOLLOWING,) * 8)


def asks(seed: int, count: int) -> list[OutcomeAsk]:
    """``count`` jobs of ``seed``."""
    drawn = random.Random(seed)  # noqa: S311 - reproducible, no secret
    return [_ask(drawn) for _ in range(count)]


def _ask(drawn: random.Random) -> OutcomeAsk:
    kind = drawn.choices((SHAPES, ON_GPUS, WHOLE_NODES, RARE), (66, 8, 6, 20))[0]
    shape = drawn.choice(kind)
    memory = drawn.choice(("",) * 5 + MEMORY)
    workload = drawn.choice(_COMMON * 2 + _OTHERS)
    if drawn.random() < 0.05:
        memory, workload = ALL_MEMORY, drawn.choice((workload, FASTEST["node"]))
    if shape.gpus and drawn.random() < 0.4:
        memory = GPU_MEMORY
    body = drawn.choice([body for body in BODIES if fits(body, shape, memory)])
    return ask(
        shape,
        memory,
        body,
        client=drawn.choice(CLIENTS),
        workload=workload,
        by_environment=drawn.random() < 0.2,
        partition=drawn.random() < 0.9,
    )


def fits(body: Body, shape: Shape, memory: str) -> bool:
    """Whether a job of that shape can do that at all."""
    held = memory_mb(shape, memory)
    met = {
        "n": shape.tasks > 0,
        "c": shape.cpus > 0,
        "many": shape.copies > 1,
        "node": shape.nodes < 2,
        "little": held is not None and held <= _MEMORY_BODY_MB and shape.nodes < 2,
    }
    return all(met[need] for need in body.needs.split())


def memory_mb(shape: Shape, memory: str) -> int | None:
    """What the job holds as written, in ``auto``, in MB; None: that depends on the node."""
    option, _, value = memory.partition("=")
    if not memory:
        whole = "--exclusive" in shape.words or "--mincpus" in shape.words
        return None if whole or shape.gpus else AUTO_MEMORY_MB_PER_CPU * shape.cores
    amount = int(value.replace("G", "000"))
    if amount == 0:
        return None
    return {"--mem": amount, "--mem-per-cpu": amount * shape.cores}.get(option)


def ask(
    shape: Shape,
    memory: str,
    body: Body,
    *,
    client: str = "file",
    workload: str = "gpuapp",
    by_environment: bool = False,
    partition: bool = True,
) -> OutcomeAsk:
    """One job of these parts."""
    held = int(0.7 * (memory_mb(shape, memory) or 0))
    tools = {name: f"{{tools}}/{name}" for name in ("copy", "hold", "meet", "mpirun", "workers")}
    text = body.text.format(
        n=shape.copies,
        twice=2 * shape.copies,
        c=max(1, shape.cpus),
        cores=shape.cores,
        memory=max(1, held),
        share=max(1, held // shape.copies),
        **tools,
    )
    return OutcomeAsk(
        words=(*(("-p", "auto") if partition else ()), *shape.words.split(), *memory.split()),
        workload=workload,
        body=f"{tools['copy']} batch\n{text}\nexit $?\n",
        client=client,
        by_environment=by_environment,
        form=(f"shape {shape.words}", f"memory {memory}", f"body {body.name}",
              f"client {client}", f"workload {workload}"),
    )  # fmt: skip
