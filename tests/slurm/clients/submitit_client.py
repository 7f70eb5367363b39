"""Two tasks and an array by submitit: FOLDER COMMENT ACCOUNT. Prints what the tasks saw."""

import json
import os
import sys

import submitit


def seen(number: int) -> tuple[str, int, int, str, int]:
    here = submitit.JobEnvironment()
    return (
        os.environ["SLURM_JOB_PARTITION"],
        here.global_rank,
        here.num_tasks,
        os.environ["SLURM_CPUS_PER_TASK"],
        number * number,
    )


folder, comment, account = sys.argv[1:]
executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
executor.update_parameters(
    slurm_partition="auto",
    slurm_comment=comment,
    slurm_additional_parameters={"account": account},
    timeout_min=5,
    mem_gb=2,
    cpus_per_task=4,
    tasks_per_node=2,
)
job = executor.submit(seen, 5)
array = executor.map_array(seen, [1, 2])
print(
    json.dumps(
        {"id": job.job_id, "single": job.results(), "array": [one.results() for one in array]}
    )
)
