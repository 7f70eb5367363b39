-- /etc/slurm/cli_filter.lua of a site that has a client filter of its own, and Berth's beside it.
--
-- Berth's filter changes at most the comment and refuses nothing, so it runs last, on the options as
-- the site's own filter leaves them.

-- A copy of Berth's client filter; without it, or with a broken one, the site's filter works alone.
pcall(dofile, "/etc/slurm/berth_cli_filter.lua")
local berth_pre_submit, berth_post_submit = slurm_cli_pre_submit, slurm_cli_post_submit

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  -- The site's own rules.
  if options["nodelist"] ~= nil and options["partition"] == nil then
    slurm.log_error("name a partition with --nodelist")
    return slurm.ERROR
  end
  return berth_pre_submit and berth_pre_submit(options, offset) or slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return berth_post_submit and berth_post_submit(offset, job_id, step_id) or slurm.SUCCESS
end

return slurm.SUCCESS
