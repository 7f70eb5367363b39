-- A site's own job_submit.lua around Berth's: writes down each job before and after, and how long.
dofile("@FILTER@")
local socket = require "socket"
local json = require "cjson"
local submit = slurm_job_submit
local FIELDS = {
  "partition", "features", "gres", "tres_per_job", "tres_per_task", "tres_per_socket", "min_nodes",
  "max_nodes", "time_limit", "num_tasks", "cpus_per_task", "min_cpus", "pn_min_cpus",
  "ntasks_per_node", "min_mem_per_node", "min_mem_per_cpu", "comment", "account", "qos", "priority",
  "user_id", "name",
}

local function looked_at(job)
  local found = {}
  for _, field in ipairs(FIELDS) do
    local value = job[field]
    if type(value) == "number" and (value >= 4294967293 or value == 65534) then value = nil end
    if value ~= "" then found[field] = value end
  end
  return found
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  local stamp_before = job_desc.admin_comment
  local before = looked_at(job_desc)
  local begun = socket.gettime()
  local code = submit(job_desc, part_list, submit_uid)
  local took = socket.gettime() - begun
  local stamp = job_desc.admin_comment
  local file = io.open("@CALLS@", "a")
  file:write(json.encode({
    name = job_desc.name, at_s = begun, took_s = took, code = code, before = before,
    after = looked_at(job_desc), stamp = stamp ~= stamp_before and stamp or nil,
  }), "\n")
  file:close()
  return code
end
return slurm.SUCCESS
