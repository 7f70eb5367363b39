"""A site's own rules beside the filter: asked about the edited job, undone where they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from filter_bench import FilterBench, Outcome

AUTO = {"partition": "auto", "comment": "berth:app"}
STAMP = "berth/1 id=x action=edit code=placed to=gpu"
MOVE = {**move_to("gpu", gres="gpu:h200:1", time_limit_min=60), "stamp": STAMP}
REFUSES_GPU = """
return function(job, parts, uid)
  if job.partition == "gpu" then
    job.account = "punished"
    job.environment["SITE"] = "was here"
    slurm.log_user("site: no %s for you", job.gres)
    slurm.user_msg("site: really")
    return slurm.ERROR
  end
  slurm.log_user("site: %s is fine", job.partition)
  return slurm.SUCCESS
end
"""


def submitted(
    bench: FilterBench, check: str, reply: Reply = MOVE, job: dict[str, Any] | None = None
) -> Outcome:
    with FakeDaemon(bench.socket, lambda _: reply):
        return bench.submit(job or AUTO, environment={"HOME": "/"}, site_check=check)


def assert_as_it_was(outcome: Outcome, code: int = 0) -> None:
    """The job is as its user wrote it, but for the stamp that says why."""
    own = {key: outcome.job.get(key) for key in ("partition", "gres", "time_limit", "account")}
    assert own == {"partition": "auto", "gres": None, "time_limit": None, "account": None}
    assert outcome.environment == {"HOME": "/"}
    stamp = "berth/1 id=x action=keep code=site-rule to=gpu"
    assert outcome.job["admin_comment"] == stamp
    assert outcome.codes == [code]
    assert outcome.complaints == []


def test_a_rule_that_refuses_the_edited_job_is_asked_about_the_original(bench: FilterBench) -> None:
    outcome = submitted(bench, REFUSES_GPU)
    assert_as_it_was(outcome)
    assert outcome.user == ["site: auto is fine"]


def test_a_rule_that_accepts_sees_the_edit_and_may_add_to_it(bench: FilterBench) -> None:
    check = """
    return function(job, parts, uid)
      assert(job.partition == "gpu" and job.gres == "gpu:h200:1" and job.time_limit == 60)
      assert(parts.gpu.state_up == 3 and uid == 5 and job.environment["HOME"] == "/")
      job.account = "gpu-users"
      job.environment["SITE"] = "gpu"
      assert(job.account == "gpu-users" and job.environment["SITE"] == "gpu")
      slurm.log_user("site: welcome, 100%%")
      return slurm.SUCCESS
    end
    """
    outcome = submitted(bench, check)
    assert (outcome.job["partition"], outcome.job["account"]) == ("gpu", "gpu-users")
    assert (outcome.environment or {})["SITE"] == "gpu"
    assert outcome.job["admin_comment"].startswith(STAMP)
    assert outcome.user[0] == "site: welcome, 100%"
    assert outcome.user[1].startswith("berth: ")
    assert outcome.codes == [0]


def test_a_rule_that_refuses_both_has_the_last_word(bench: FilterBench) -> None:
    check = """return function(job) slurm.log_user("site: no " .. job.partition) return 2051 end"""
    outcome = submitted(bench, check)
    assert_as_it_was(outcome, 2051)
    assert outcome.user == ["site: no auto"]


@pytest.mark.parametrize(
    "broken",
    [
        'error("a rule with a fault")',
        "error({})",
        "local x = nil; return x.y",
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return f() end return f()",
        "local function f() return 1 + f() end return f()",
        "return nil",
        'return "yes"',
        "return {}",
        "return 1e300",
        "return true",
        "coroutine.yield(0)",
        "job.account = nil",
        "job.no_such_field = 1 return slurm.SUCCESS",
        'job.time_limit = "long" return slurm.SUCCESS',
    ],
)
def test_a_rule_that_raises_loops_or_returns_nonsense_for_the_edited_job_moves_nothing(
    bench: FilterBench, broken: str
) -> None:
    check = f"""
    return function(job)
      if job.partition == "gpu" then {broken} end
      return slurm.SUCCESS
    end
    """.replace("return nil end", "do return nil end end")
    outcome = submitted(bench, check)
    assert outcome.job["partition"] == "auto"
    assert "gres" not in outcome.job
    assert outcome.codes == [0]


def test_no_hook_of_ours_is_left_when_a_rule_did_not_end(bench: FilterBench) -> None:
    check = """
    return function(job)
      if job.partition == "gpu" then while true do end end
      local sum = 0
      for index = 1, 3000000 do sum = sum + index end
      return debug.gethook() == nil and slurm.SUCCESS or slurm.ERROR
    end
    """
    assert_as_it_was(submitted(bench, check))


@pytest.mark.parametrize("reply", [KEEP, move_to("secret"), b"garbage\n"])
def test_a_rule_is_asked_once_about_a_job_that_stays(bench: FilterBench, reply: Any) -> None:
    check = """
    return function(job)
      job.account = "n" .. #(job.account or "") + 1
      return slurm.SUCCESS
    end
    """
    assert submitted(bench, check, reply).job["account"] == "n1"


def test_a_rule_that_fails_for_the_original_fails_as_without_berth(bench: FilterBench) -> None:
    outcome = submitted(bench, 'return function(job) error("a rule with a fault") end')
    assert_as_it_was(outcome, -3)


def test_a_rule_that_writes_a_stamp_of_its_own_does_not_lose_ours(bench: FilterBench) -> None:
    check = 'return function(job) job.admin_comment = "site" return slurm.SUCCESS end'
    outcome = submitted(bench, check)
    assert outcome.job["admin_comment"].startswith(f"site {STAMP}")


@pytest.mark.parametrize("asked", ["min_mem_per_node", "min_mem_per_cpu"])
def test_memory_is_shown_in_the_form_that_slurm_would_show(bench: FilterBench, asked: str) -> None:
    check = """
    return function(job)
      if job.partition ~= "gpu" then return slurm.SUCCESS end
      assert((job.min_mem_per_node == nil) == (job.min_mem_per_cpu ~= nil))
      job.min_mem_per_node = 123
      assert(job.min_mem_per_cpu == nil and job.min_mem_per_node == 123)
      return slurm.SUCCESS
    end
    """
    outcome = submitted(bench, check, MOVE, {**AUTO, asked: 2000})
    assert (outcome.job["partition"], outcome.job["min_mem_per_node"]) == ("gpu", 123)
