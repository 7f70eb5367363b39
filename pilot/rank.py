"""Run one rank of an MPI program and write its time and memory into a file.

The launcher starts this file in place of the rank (``python -I -S rank.py FILE COMMAND ...``).
FILE becomes one JSON object: node, rank, wall-clock seconds, processor seconds, peak memory in
bytes, exit status. Signals are passed on to the rank. Only the standard library is imported,
because thousands of these processes can start at once.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time

RANK_VARIABLES = (
    "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID",
)  # fmt: skip
NODE_VARIABLES = ("SLURMD_NODENAME",)
"""Environment variables with the node's name. They come before the host name, because in test
clusters several nodes run on one host."""
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND = 127


def run(command: list[str]) -> tuple[float, int]:
    """Run the rank's command and return its wall time in seconds and its wait status."""
    started_s = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)  # nosec B606
        except OSError as error:
            sys.stderr.write(f"{command[0]} could not be started: {error.strerror}\n")
        os._exit(NOT_FOUND)
    for number in PASSED_ON:
        signal.signal(number, lambda got, _: os.kill(child, got))
    while True:
        try:
            _, status = os.waitpid(child, 0)
        except InterruptedError:
            continue
        return time.monotonic() - started_s, status


def main(file: str, command: list[str]) -> int:
    """Run the command, write the record to ``file``, and return the command's exit status."""
    seconds, status = run(command)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = os.waitstatus_to_exitcode(status)
    rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0")
    node = next((os.environ[name] for name in NODE_VARIABLES if name in os.environ), "")
    record = {
        "node": node or os.uname().nodename,
        "rank": int(rank),
        "seconds": seconds,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_memory_bytes": usage.ru_maxrss * 1024,
        "exit_status": code if code >= 0 else 128 - code,
    }
    part = f"{file}.part"
    try:
        with open(part, "w", encoding="ascii") as stream:
            json.dump(record, stream)
        os.rename(part, file)
    except OSError as error:  # the exit status stays that of the program
        sys.stderr.write(f"{file} cannot be written: {error.strerror}\n")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
