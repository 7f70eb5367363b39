"""A stub of ``perf stat``: it writes counts to its ``-o`` file when it is interrupted."""

from __future__ import annotations

COUNTS = """\
# started on Thu Nov 26 15:37:59 2026

8000000,,instructions:u,/system.slice/slurmstepd.scope/job_40,24000,75.00,,
<not supported>,,L1-dcache-stores:u,/system.slice/slurmstepd.scope/job_40,0,100.00,,
244.07,msec,task-clock,/system.slice/slurmstepd.scope/job_40,244066134,100.00,0.162,CPUs utilized
"""
STUB = """\
#!/bin/sh
for word; do [ "$before" = -o ] && written=$word; before=$word; done
trap 'cat "$0.csv" > "$written"; exit 0' INT
echo "$@" > "$0.words"
while :; do sleep 0.01; done
"""
