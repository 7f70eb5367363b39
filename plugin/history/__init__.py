"""Past jobs: read from accounting, stored, matched with new jobs, and used for advice to users.

Each scheduler reads its own accounting (``past_jobs.py`` in its folder), and ``files`` reads the
Standard Workload Format; all return Runs. ``workloads`` makes history workloads from
the records, which the submit filter places like any other workload; ``advice`` compares used with
requested memory and time.
"""
