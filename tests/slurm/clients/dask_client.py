"""Two jobs of two workers by dask-jobqueue: FOLDER COMMENT ACCOUNT. Prints what they computed."""

import json
import os
import sys

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def place(_number: int) -> str:
    return os.environ["SLURM_JOB_PARTITION"]


if __name__ == "__main__":
    folder, comment, account = sys.argv[1:]
    cluster = SLURMCluster(
        queue="auto",
        account=account,
        cores=8,
        processes=2,
        memory="4GB",
        walltime="00:10:00",
        interface="lo",
        job_extra_directives=[f"--comment={comment}"],
        log_directory=folder,
        local_directory=folder,
        python=sys.executable,
    )
    cluster.scale(jobs=2)
    client = Client(cluster)
    client.wait_for_workers(4, timeout=90)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    result = {
        "ids": [worker.job_id for worker in cluster.workers.values()],
        "workers": len(workers),
        "threads": sorted({worker["nthreads"] for worker in workers}),
        "sum": sum(client.gather(client.map(lambda number: number * number, range(10)))),
        "places": sorted(set(client.gather(client.map(place, range(8), pure=False)))),
    }
    print(json.dumps(result))
    client.close()
    cluster.close()
