"""A ReFrame test of four ranks with two cores each."""

import reframe
from reframe.core.builtins import sanity_function
from reframe.utility import sanity


@reframe.simple_test
class FourRanks(reframe.RunOnlyRegressionTest):
    valid_systems = ["*"]  # noqa: RUF012
    valid_prog_environs = ["*"]  # noqa: RUF012
    executable = "sh"
    executable_opts = ["-c", "'echo rank $SLURM_PROCID of $SLURM_NTASKS in $SLURM_JOB_PARTITION'"]  # noqa: RUF012
    num_tasks = 4
    num_tasks_per_node = 4
    num_cpus_per_task = 2
    time_limit = "2m"

    @sanity_function
    def all_in_the_best_place(self):
        ranks = sanity.findall(r"rank \d of 4 in gpu", self.stdout)
        return sanity.assert_eq(sanity.count(ranks), 4)
