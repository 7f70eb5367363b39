"""The word of a command names a job's program; folders, arguments and text name nothing."""

from __future__ import annotations

import time

import pytest

from berth.plugin.site.command_words import program_in

NAMED = {
    "srun vasp_std": "vasp_std",
    "mpirun -np 64 $VASP_BIN/vasp_gam > vasp.out": "vasp_gam",
    "srun --mpi=pmix -n ${SLURM_NTASKS} vasp_ncl": "vasp_ncl",
    "mpirun -np 4 --hostfile hosts.txt lmp -in in.lj": "lammps",
    "srun lmp_mpi -in in.rhodo": "lammps",
    "singularity run --nv $PWD/lammps.sif mpirun -n 2 lmp -k on g 2 -in in.lj": "lammps",
    "export OMP_NUM_THREADS=8\ngmx mdrun -deffnm md": "gromacs-mdrun",
    "mpirun gmx_mpi mdrun -s topol.tpr": "gromacs-mdrun",
    "gmx_mpi grompp -f md.mdp\nsrun gmx_mpi mdrun -v": "gromacs-mdrun",
    "srun mdrun_mpi -deffnm x": "gromacs-mdrun",
    "srun cp2k.psmp -i H2O.inp -o H2O.out": "cp2k",
    "mpirun -np 32 cp2k.popt in.inp": "cp2k",
    "srun namd2 +ppn 7 stmv.namd": "namd",
    "charmrun ++ppn 7 namd3 stmv.namd": "namd",
    "mpirun -np 16 pw.x -nk 4 -in scf.in > scf.out": "espresso-pw",
    "srun ph.x < ph.in": "espresso-ph",
    "$(which orca) job.inp": "orca",
    'ORCA="$(which orca)"\n${ORCA} job.inp': "orca",
    "export EXE=/apps/bin/lmp_mpi\nsrun $EXE -in in.lj": "lammps",
    "MPI='mpirun -np 8'\n$MPI vasp_std_gpu": "vasp_std",
    "mympirun --output run.log vasp": "vasp",
    "srun ./gpu-wrapper.sh gmx_mpi mdrun -v": "gromacs-mdrun",
    "srun pmemd.hip -O -i md.in": "amber-pmemd",
    "g16_avx2 < water.com": "gaussian",
    "/opt/orca/orca job.inp > job.out": "orca",
    "pmemd.cuda -O -i md.in": "amber-pmemd",
    "mpirun -np 8 sander.MPI -O -i md.in": "amber-sander",
    "srun -N 2 -n 64 nwchem input.nw": "nwchem",
    "g16 < water.com": "gaussian",
    "srun siesta < in.fdf": "siesta",
    "srun abinit tbase.abi": "abinit",
    "time mpirun ./wrf.exe": "wrf",
    "mpirun -np 32 simpleFoam -parallel": "openfoam-simpleFoam",
    "srun torchrun --nnodes 2 --nproc_per_node 4 train.py": "torchrun",
    "python -m torch.distributed.run --nproc_per_node 8 train.py": "torchrun",
    "vllm serve meta-llama/Llama-3-8B": "vllm",
    "apptainer exec --nv vllm.sif vllm serve /models/x": "vllm",
    "python3 -m vllm.entrypoints.openai.api_server --model x": "vllm",
    "jupyter-lab --no-browser": "jupyter",
    "jupyter notebook --ip 0.0.0.0": "jupyter",
    "dask-worker tcp://10.0.0.1:8786": "dask-worker",
    "cd $HOME/lammps && python analyse.py": "",
    "tar xf lammps; ./x": "",
    "python train.py --out lammps": "",
    "srun python train.py lammps": "",
    "srun -n4 ./x --out lammps": "",
    "echo 'see jupyter notebook'; ./x": "",
    "cp -r ../vasp_std .; ./x": "",
    "rm -f orca; ls gmx mdrun": "",
    "module load lammps\n./mine": "",
    'DIR="/scratch/lammps"\nsrun ./mine $DIR': "",
    "grep 'vasp_std' log": "",
    "srun --job-name lammps ./x": "",
    "srun ./mine.sh lammps": "",
    "# then run (vasp_std); srun lmp\n./x": "",
    "cat > job.sh <<EOF\nsrun lmp\nEOF\n./x": "",
    "EXE=./mine\nOUT=vasp_std\nsrun $EXE > $OUT": "",
    "PROG=lmp\necho $PROG; ./x": "",
    "": "", "'": "", "$A": "", "A=$A\n$A": "", "<<EOF": "", "srun": "", "srun -n": "", "&& | ;": "",
}  # fmt: skip


@pytest.mark.parametrize(("command", "program"), NAMED.items())
def test_only_the_word_of_a_command_names_a_program(command: str, program: str) -> None:
    assert program_in(command) == program


def test_text_that_is_no_script_takes_no_long_time() -> None:
    for text in ("lmp " * 1_000, "'\"lmp" * 800, "srun -" * 700 + "lmp", "\\lmp;" * 800):
        begun_s = time.process_time()
        program_in(text)
        assert time.process_time() - begun_s < 5.0
