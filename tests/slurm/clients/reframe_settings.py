"""ReFrame's site configuration; options for sbatch are in BERTH_TEST_ACCESS."""

import os

site_configuration = {
    "systems": [
        {
            "name": "here",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "auto",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "access": os.environ["BERTH_TEST_ACCESS"].split(),
                    "environs": ["builtin"],
                    "max_jobs": 2,
                }
            ],
        }
    ],
    "environments": [{"name": "builtin", "cc": "gcc"}],
}
