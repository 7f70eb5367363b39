"""A block of parsl's on one node: FOLDER COMMENT ACCOUNT. Prints what its tasks saw."""

import json
import sys
from pathlib import Path

import parsl
from parsl.app.app import python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@python_app
def seen(number):
    import os

    return os.environ["SLURM_JOB_PARTITION"], os.environ["SLURM_NTASKS"], number * number


if __name__ == "__main__":
    folder, comment, account = sys.argv[1:]
    provider = SlurmProvider(
        partition="auto",
        account=account,
        nodes_per_block=1,
        cores_per_node=8,
        mem_per_node=4,
        init_blocks=1,
        max_blocks=1,
        exclusive=False,
        walltime="00:10:00",
        scheduler_options=f"#SBATCH --comment={comment}",
        launcher=SrunLauncher(),
        worker_init=f"export PATH={Path(sys.executable).parent}:$PATH",
    )
    executor = HighThroughputExecutor(
        label="here",
        address="127.0.0.1",
        max_workers_per_node=2,
        worker_logdir_root=folder,
        provider=provider,
    )
    parsl.load(Config(run_dir=f"{folder}/runinfo", executors=[executor]))
    results = [future.result(timeout=120) for future in [seen(number) for number in range(4)]]
    ids = list(executor.blocks_to_job_id.values())
    print(json.dumps({"ids": ids, "results": results}))
    parsl.dfk().cleanup()
