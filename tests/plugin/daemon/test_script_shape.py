"""What a script's text says of its tasks, cores and steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.plugin.daemon.recognised import names_its_shape, packs_steps

HEAD = "#!/bin/bash\n#SBATCH -n 8\n#SBATCH --cpus-per-task=4\n"


@pytest.mark.parametrize(
    "command",
    [
        "srun -n 8 ./app",
        "srun --ntasks=8 ./app",
        "srun -n8 ./app",
        "time mpirun -np 8 ./app",
        "/opt/mpi/bin/mpiexec.hydra -n 8 ./app",
        "mpirun --map-by core -np 4 ./app",
        "srun -c 4 ./app",
        "srun \\\n  --mpi=pmix \\\n  -n 16 ./app",
        "torchrun --nproc_per_node=4 train.py",
        "export OMP_NUM_THREADS=16",
        "OMP_NUM_THREADS=8 ./app",
        "make -j8",
        "bwa mem --threads 8 ref.fa",
        "gmx mdrun -ntomp 8",
        "if true; then srun -N2 ./app; fi",
        "snakemake --cores 4",
    ],
)
def test_numbers_in_a_command_are_the_scripts_own(command: str) -> None:
    assert names_its_shape(f"{HEAD}module load mpi\n{command}\n")


@pytest.mark.parametrize(
    "command",
    [
        "srun ./app",
        "srun -n $SLURM_NTASKS ./app",
        'mpirun -np "$SLURM_NTASKS" ./app',
        "srun -c ${SLURM_CPUS_PER_TASK} ./app",
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
        "./app -n 8",
        "echo srun",
        "# srun -n 8 ./app",
        "python train.py --epochs 90",
    ],
)
def test_what_follows_the_scheduler_names_nothing(command: str) -> None:
    assert not names_its_shape(f"{HEAD}{command}\n")


@pytest.mark.parametrize(
    "commands",
    [
        "for i in 1 2 3 4; do srun -n1 --exact ./app $i & done; wait",
        "for i in 1 2; do\n  srun -n1 ./app &\ndone\nwait",
        "srun -n1 ./a > a.log 2>&1 &\nsrun -n1 ./b &\nwait",
        "one() { srun -n1 ./app $1; }\none 1 &\none 2 &\nwait",
        "parallel -j 4 srun -n1 --exact ./app ::: 1 2 3",
        "seq 9 | xargs -P4 -I{} srun -n1 ./app {}",
    ],
)
def test_steps_beside_each_other_are_seen(commands: str) -> None:
    assert packs_steps(f"{HEAD}{commands}\n")


@pytest.mark.parametrize(
    "commands",
    [
        "srun ./app",
        "srun ./a && srun ./b",
        "srun ./app > log 2>&1",
        "srun ./app &> log",
        "srun ./app |& tee log",
        "sleep 9 &\n./app",
        "# srun ./app &\nsrun ./app",
        "curl 'http://host/?a=1\\&b=2'; srun ./app",
    ],
)
def test_steps_one_after_the_other_are_no_steps_at_once(commands: str) -> None:
    assert not packs_steps(f"{HEAD}{commands}\n")


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    assert names_its_shape(text) in (True, False)
    assert packs_steps(text) in (True, False)
