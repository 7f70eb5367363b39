"""What a job used, read once when it ends: no user does anything, nothing runs beside the job.

``at_job_end`` runs on the compute node, as Slurm's Epilog or a like script, and leaves one line in
the node's spool; ``line`` checks such a line; ``record`` is what all sources of usage come to.
"""
