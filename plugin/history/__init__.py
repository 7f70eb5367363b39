"""Past jobs: read from accounting, stored, matched to new jobs, advised on.

Readers give ``PastJobRecord``: ``sacct`` (Slurm), ``flux_jobs`` (Flux), ``swf`` (the Standard
Workload Format). ``workloads`` makes history workloads of them, which the submit filter places like
any other; ``advice`` says what jobs needed of what they asked for.
"""
