"""Where the Slurm filter's time goes, inside a real slurmctld: fields, exchange, JSON, messages.

The filter runs with a stopwatch around all that it calls: each read and write of a field of the
job, of its environment and of a partition, the socket, JSON, the logs. What is left is its own
Lua. The stopwatch costs about 0.2 us a call, which is in the figures. Needs Slurm's daemons and
root.

    python benchmarks/submit_parts.py [--jobs 1000] [--fields]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "slurm"), str(ROOT / "tests" / "support")]

from sbatch_bench.submitter import (  # noqa: E402
    WARM_UP,
    Submitter,
    as_user,
    cluster_with,
    why_no_slurm,
)
from slurm_cluster import USER  # noqa: E402

STOPWATCH = """\
local socket = require "socket"
local gettime, jobs, spent = socket.gettime, {{}}, {{}}
local function add(name, begun)
  local one = spent[name] or {{ 0, 0 }}
  spent[name] = one
  one[1], one[2] = one[1] + 1, one[2] + gettime() - begun
end
local function timed(name, call)
  return function(...)
    local begun = gettime()
    local a, b, c = call(...)
    add(name, begun)
    return a, b, c
  end
end
local function watched(kind, real)
  return setmetatable({{}}, {{
    __index = function(_, key)
      local begun = gettime()
      local value = real[key]
      add(kind .. " read:" .. tostring(key), begun)
      if kind == "job" and key == "environment" then return watched("environment", value) end
      return value
    end,
    __newindex = function(_, key, value)
      local begun = gettime()
      real[key] = value
      add(kind .. " write:" .. tostring(key), begun)
    end,
  }})
end
local json = require "cjson"
package.loaded.cjson = {{
  encode = timed("json:encode", json.encode), decode = timed("json:decode", json.decode),
}}
local unix = require "socket.unix"
local new_peer = type(unix) == "table" and unix.stream or unix
package.loaded["socket.unix"] = function()
  local real, peer = new_peer(), {{}}
  for _, name in ipairs {{ "settimeout", "connect", "send", "receive", "close" }} do
    peer[name] = timed("socket:" .. name, function(_, ...) return real[name](real, ...) end)
  end
  return peer
end
local real_open = io.open
io.open = timed("files:open", real_open)
slurm.log_user = timed("message:user", slurm.log_user)
slurm.log_info = timed("message:log", slurm.log_info)
dofile("{filter}")
local berth_submit = slurm_job_submit
function slurm_job_submit(job_desc, part_list, submit_uid)
  local name = job_desc.name
  if name == "report" then
    local file = real_open("{timings}", "w")
    for index, job in ipairs(jobs) do
      for key, one in pairs(job) do
        file:write(string.format("%d|%s|%d|%.9f\\n", index, key, one[1], one[2]))
      end
    end
    file:close()
    return slurm.SUCCESS
  end
  spent = {{}}
  jobs[#jobs + 1] = spent
  local parts = {{}}
  for key, part in pairs(part_list) do parts[key] = watched("partition", part) end
  local begun = gettime()
  local code = berth_submit(watched("job", job_desc), parts, submit_uid)
  add("all", begun)
  return code
end
return slurm.SUCCESS
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--fields", action="store_true", help="each field by itself, too")
    given = parser.parse_args()
    if missing := why_no_slurm():
        print(f"skipped: {missing}")
        return 0
    with cluster_with(STOPWATCH) as running:
        submitter = Submitter(running)
        with as_user(USER):
            for _ in range(WARM_UP + given.jobs):
                submitter.ms("job")
        running.run("sbatch", "--hold", "-J", "report", "--wrap=true")
        text = running.timings.read_text()
    _print(text, fields=given.fields)
    return 0


def _print(text: str, *, fields: bool) -> None:
    jobs: dict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
    for line in text.splitlines():
        job, key, calls, seconds = line.split("|")
        jobs[job][key] = int(calls), 1e6 * float(seconds)
    measured = list(jobs.values())[WARM_UP:]
    print(f"{len(measured)} submissions, medians; load {os.getloadavg()[0]:.2f}")
    print(f"{'':<42}{'calls':>8}{'us':>10}")
    kinds = [_by_kind(job) for job in measured]
    _table(kinds, len(kinds))
    if fields:
        print()
        _table(measured, 50)


def _by_kind(job: Mapping[str, tuple[int, float]]) -> dict[str, tuple[int, float]]:
    """Sums over fields; what is in none of them is the filter's own Lua."""
    found: dict[str, tuple[int, float]] = {}
    for key, (calls, us) in job.items():
        kind = key if key.startswith(("socket:", "json:")) else key.partition(":")[0]
        before = found.get(kind, (0, 0.0))
        found[kind] = before[0] + calls, before[1] + us
    parts = sum(us for kind, (_, us) in found.items() if kind != "all")
    return {**found, "its own Lua, and the stopwatch": (0, found["all"][1] - parts)}


def _table(jobs: Sequence[Mapping[str, tuple[int, float]]], most: int) -> None:
    keys = {key for job in jobs for key in job}
    medians = {
        key: tuple(median(job.get(key, (0, 0.0))[part] for job in jobs) for part in (0, 1))
        for key in keys
    }
    for key, (calls, us) in sorted(medians.items(), key=lambda item: -item[1][1])[:most]:
        print(f"{key:<42}{calls:8.0f}{us:10.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
