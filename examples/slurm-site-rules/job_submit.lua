-- /etc/slurm/job_submit.lua of a site that has rules of its own, and Berth beside them.
--
-- Berth asks the rules about the job as it would change it. Where they refuse, nothing is changed and
-- the job goes on as its user wrote it, to the same rules: no job is refused because Berth moved it,
-- and none gets past a rule because Berth moved it.

-- A copy of Berth's filter; without it, or with a broken one, the rules hold all the same.
pcall(dofile, "/etc/slurm/berth_submit.lua")

-- The site's rules, as they would stand in slurm_job_submit.
local function rules(job_desc, part_list, uid)
  if job_desc.partition == "gpu" then
    if job_desc.time_limit == slurm.NO_VAL then
      slurm.log_user("GPU jobs must say --time")
      return slurm.ERROR
    end
    if job_desc.account == nil then job_desc.account = "gpu-users" end
  end
  return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, uid)
  if berth_submit then return berth_submit(job_desc, part_list, uid, rules) end
  return rules(job_desc, part_list, uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return berth_modify and berth_modify(job_desc, job_rec, part_list, modify_uid) or slurm.SUCCESS
end

return slurm.SUCCESS
