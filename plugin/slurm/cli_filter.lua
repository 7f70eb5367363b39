-- Berth's client filter for Slurm, optional: what sbatch, srun and salloc keep from slurmctld's Lua.
--
-- `--gres=none`, `--gpus-per-task=0` (since 24.11), `--deadline`, `--core-spec` and `--thread-spec`
-- are choices that job_submit.lua cannot see on the command line. A job with one of them that Berth might move gets the word
-- `berth:off` in its comment. Nothing else is looked at, and no error of ours stops a submission.
-- Install it beside slurm.conf as cli_filter.lua with CliFilterPlugins=lua (docs/slurm.md).

local AUTO = os.getenv("BERTH_AUTO_PARTITION") or "auto"
local UNSET = { [""] = true, ["unset"] = true, ["Unknown"] = true, ["N/A"] = true }

local function given(options, name)
  local fine, value = pcall(function() return options[name] end)
  return fine and type(value) == "string" and not UNSET[value] and value or nil
end

local function unseen(options)
  local gres = given(options, "gres")
  return gres and gres:lower():gsub("^gres[:/]", "") == "none"
    or (given(options, "gpus-per-task") or ""):find("^[%w_:]*%f[%w]0$")
    or given(options, "deadline") or given(options, "core-spec") or given(options, "thread-spec")
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  pcall(function()
    local partition = given(options, "partition")
    if (partition and partition ~= AUTO) or not unseen(options) then return end
    local comment = given(options, "comment")
    options["comment"] = comment and comment .. " berth:off" or "berth:off"
  end)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
