"""Past jobs: read from accounting, stored, matched with new jobs, and used for advice to users.

Each scheduler reads its own accounting (``past_jobs.py`` in its folder), ``files`` the Standard
Workload Format; all give ``PastJobRecord``. ``workloads`` makes history workloads of them, which
the submit filter places like any other; ``advice`` says what jobs needed of what they asked for.
"""
