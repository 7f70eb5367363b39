-- Runs the filter outside slurmctld. Standard input: one JSON object
--   {filter, job, environment, partitions, submissions, poison, pause_s, site_check}
-- `site_check`: Lua that returns a site's own check, which berth_submit is called with.
-- Standard output: one JSON object with the job as the filter left it, what the user and the log
-- were told, what slurmctld would have complained about, and seconds of each submission.
local json = require "cjson"
local socket = require "socket"
local order = json.decode(io.read("*a"))

local NO_VAL, NO_VAL16, NO_VAL64 = 4294967294, 65534, 1.8446744073709552e+19
local NUMBERS = {
  min_nodes = NO_VAL, max_nodes = NO_VAL, num_tasks = NO_VAL, cpus_per_task = NO_VAL16,
  ntasks_per_node = NO_VAL16, min_cpus = NO_VAL, pn_min_cpus = NO_VAL16, time_limit = NO_VAL,
  time_min = NO_VAL, requeue = NO_VAL16,
  het_job_offset = NO_VAL, user_id = NO_VAL, pn_min_memory = NO_VAL64, pn_min_tmp_disk = NO_VAL,
  sockets_per_node = NO_VAL16, cores_per_socket = NO_VAL16, threads_per_core = NO_VAL16,
  shared = NO_VAL16, contiguous = 0, reboot = NO_VAL16, req_switch = NO_VAL, power_flags = 0,
  bitflags = 503316480, ntasks_per_socket = NO_VAL16, ntasks_per_core = NO_VAL16, ntasks_per_board = 0,
  ntasks_per_tres = NO_VAL16, segment_size = NO_VAL16,
  core_spec = NO_VAL16, thread_spec = NO_VAL16,
}
local TEXTS = {}
for name in ([[account default_account qos default_qos reservation name partition comment
  admin_comment gres tres_per_job tres_per_task tres_per_socket features array_inx req_nodes exc_nodes
  licenses user_name script argv prefer cpus_per_tres mem_per_tres batch_features burst_buffer
  clusters network req_context selinux_context]]):gmatch("%S+") do TEXTS[name] = true end

local result = { user = {}, log = {}, complaints = {}, seconds = {}, reads = 0 }
local function complain(text) table.insert(result.complaints, text) end

slurm = {
  SUCCESS = 0, ERROR = -1, NO_VAL = NO_VAL, NO_VAL16 = NO_VAL16, NO_VAL64 = NO_VAL64,
  log_info = function(format, ...) table.insert(result.log, string.format(format, ...)) end,
  log_user = function(format, ...) table.insert(result.user, string.format(format, ...)) end,
  user_msg = function(text) table.insert(result.user, text) end,
}

local fields, environment = order.job, order.environment
if order.argv then
  fields.argv = {}
  for index, word in ipairs(order.argv) do fields.argv[index - 1] = word end
end
if order.script_bytes then fields.script = string.char(unpack(order.script_bytes)) end
local job = setmetatable({}, {
  __index = function(_, name)
    result.reads = result.reads + 1
    if name == "environment" then
      if not environment then
        complain("job_desc->environment is NULL")
        return setmetatable({}, {})
      end
      return setmetatable({}, {
        __index = function(_, key) return environment[key] end,
        __newindex = function(_, key, value)
          if type(value) ~= "string" then error("environment wants strings") end
          environment[key] = value
        end,
      })
    end
    -- As in Slurm: memory of the one kind or of the other, else the field is as good as unknown.
    if name == "min_mem_per_node" or name == "min_mem_per_cpu" then return fields[name] end
    if not NUMBERS[name] and not TEXTS[name] then complain("unknown field " .. name) end
    local value = fields[name]
    if value == nil then return NUMBERS[name] end
    return value
  end,
  __newindex = function(_, name, value)
    if name == order.poison then error("cannot set " .. name) end
    if name == "min_mem_per_node" then
      fields.min_mem_per_cpu = nil
    elseif name == "min_mem_per_cpu" then
      fields.min_mem_per_node = nil
    elseif NUMBERS[name] then
      if type(value) ~= "number" then error("number expected for " .. name) end
      if value == NUMBERS[name] then value = nil end
    elseif TEXTS[name] then
      if type(value) ~= "string" then error("string expected for " .. name) end
      if value == "" then value = nil end
    else
      error("unknown field " .. name)
    end
    fields[name] = value
  end,
})

local loaded, problem = pcall(dofile, order.filter)
if not loaded then
  print(json.encode({ failed = tostring(problem) }))
  os.exit(1)
end
result.codes = {}
for index = 1, order.submissions or 1 do
  local begun = socket.gettime()
  local uid = fields.user_id or 1000
  if order.site_check then
    local check = assert(loadstring(order.site_check))()
    local fine, code = pcall(berth_submit, job, order.partitions, uid, check)
    result.codes[index] = fine and (code or -2) or -3
  else
    result.codes[index] = slurm_job_submit(job, order.partitions, uid)
  end
  result.seconds[index] = socket.gettime() - begun
  if order.pause_s then socket.sleep(order.pause_s) end
end
local reads = result.reads
result.modify = slurm_job_modify(job, {}, order.partitions, 0)
result.reads = reads
fields.script = order.script_bytes and "bytes" or fields.script
fields.argv = nil
result.job, result.environment = fields, environment
print(json.encode(result))
