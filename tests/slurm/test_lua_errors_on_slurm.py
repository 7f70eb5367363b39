"""What Slurm does with a filter that raises (another rule from 26.05 on); Berth's never does.

`make matrix` runs this under the Slurms on both sides of the change.
"""

from __future__ import annotations

import re

import pytest
from slurm_cluster import USER, Cluster

from berth.plugin.slurm.filter import FILTER_PATH

REJECTS_FROM = (26, 5)
RAISES = """\
function slurm_job_submit(job_desc, part_list, submit_uid) error("broken") end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
EVERYTHING_FAILS = """\
local real = slurm
local function fails() error("this Slurm gives nothing") end
dofile("{filter}")
local submit = slurm_job_submit
function slurm_job_submit(job_desc, part_list, submit_uid)
  slurm = setmetatable({{ SUCCESS = real.SUCCESS }}, {{ __index = fails }})
  local nothing = setmetatable({{}}, {{ __index = fails, __newindex = fails, __pairs = fails }})
  local code = submit(nothing, nothing, submit_uid)
  slurm = real
  slurm.log_info("WITNESS the filter gave %s", tostring(code))
  return code
end
return slurm.SUCCESS
"""


def version(slurm: Cluster) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", slurm.run("sinfo", "-V").stdout)
    assert found is not None
    return int(found[1]), int(found[2])


def test_a_filter_that_raises_rejects_jobs_from_26_05_on(slurm: Cluster) -> None:
    slurm.set_job_submit(RAISES)
    done = slurm.run("sbatch", "--wrap=true", user=USER, check=False)
    print(version(slurm), done.returncode, done.stderr)
    assert (done.returncode != 0) == (version(slurm) >= REJECTS_FROM)


def test_berths_filter_rejects_nothing_where_every_call_of_slurms_fails(slurm: Cluster) -> None:
    slurm.set_job_submit(EVERYTHING_FAILS.format(filter=slurm.copied(FILTER_PATH)))
    job = slurm.sbatch()
    assert slurm.wait_for_state(job.id) == "COMPLETED"
    assert "WITNESS the filter gave 0" in slurm.log()


@pytest.mark.parametrize("text", ["return slurm.", "error('while loading')"])
def test_a_file_that_breaks_later_leaves_the_last_good_one_in_force(
    slurm: Cluster, text: str
) -> None:
    with (slurm.etc / "filter.conf").open("a") as file:
        file.write("messages = all\n")
    slurm.sbatch("--hold")  # loads Berth's
    slurm.set_job_submit(text)
    assert "placement" in slurm.sbatch("--hold", "-p", "auto").message
