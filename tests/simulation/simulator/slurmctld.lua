-- What slurmctld gives to its job_submit plugin, and the libraries that the filter loads, over the
-- functions of the simulation: `net`, `host`. Gives `submit` and `load_filter`.
local net, host, json_source, config_path = ...

local peer = {}
peer.__index = peer

function peer:settimeout(seconds) self.patience = seconds end

function peer:connect(path)
  local fine, problem = net.connect(self.client, path, self.patience)
  if fine then return 1 end
  return nil, problem
end

function peer:send(data)
  local count, problem = net.send(self.client, data, self.patience)
  if problem then return nil, problem, count end
  return count
end

function peer:receive(count)
  local data, problem, part = net.receive(self.client, count, self.patience)
  if problem then return nil, problem, part end
  return data
end

function peer:close() net.close(self.client) end

package.preload["socket"] = function() return { gettime = host.time } end
package.preload["socket.unix"] = function()
  return { stream = function() return setmetatable({ client = net.new(), patience = 0 }, peer) end }
end
package.preload["cjson"] = function() return assert(loadstring(json_source))() end
os.time = function() return math.floor(host.time()) end
os.getenv = function(name) return name == "BERTH_FILTER_CONFIG" and config_path or nil end

io.open = function(path)
  local text, problem, number = host.open(path)
  if text == nil then return nil, problem, number end
  return { read = function() return text end, close = function() end }
end

local NO_VAL, NO_VAL16 = 4294967294, 65534
local NUMBERS = {
  min_nodes = NO_VAL, max_nodes = NO_VAL, num_tasks = NO_VAL, cpus_per_task = NO_VAL16,
  ntasks_per_node = NO_VAL16, min_cpus = NO_VAL, pn_min_cpus = NO_VAL16, time_limit = NO_VAL,
  time_min = NO_VAL, het_job_offset = NO_VAL, user_id = NO_VAL, pn_min_tmp_disk = NO_VAL,
  sockets_per_node = NO_VAL16, cores_per_socket = NO_VAL16, threads_per_core = NO_VAL16,
  shared = NO_VAL16, contiguous = 0, reboot = NO_VAL16, req_switch = NO_VAL, power_flags = 0,
  bitflags = 503316480, ntasks_per_socket = NO_VAL16, ntasks_per_core = NO_VAL16,
  ntasks_per_board = 0, ntasks_per_tres = NO_VAL16, segment_size = NO_VAL16, requeue = NO_VAL16,
}

slurm = {
  SUCCESS = 0, ERROR = -1, NO_VAL = NO_VAL, NO_VAL16 = NO_VAL16, NO_VAL64 = 1.8446744073709552e+19,
  log_info = function() end, log_user = function() end,
}

local function load_filter(source)
  assert(loadstring(source, "@job_submit.lua"))()
end

-- Run the filter on a job: its code, and the fields that it changed (false: unset by it).
local function submit(fields, environment, partitions)
  local before, failed = {}, false
  for key, value in pairs(fields) do before[key] = value end
  local job = setmetatable({}, {
    __index = function(_, name)
      if name == "environment" then return environment end
      local value = fields[name]
      if value == nil then return NUMBERS[name] end
      return value
    end,
    __newindex = function(_, name, value)
      if not failed and host.broken() then
        failed = true -- once: what was just written can be put back
        error("cannot set " .. name)
      end
      if name == "min_mem_per_node" then
        fields.min_mem_per_cpu = nil
      elseif name == "min_mem_per_cpu" then
        fields.min_mem_per_node = nil
      elseif NUMBERS[name] then
        if type(value) ~= "number" then error("number expected for " .. name) end
        if value == NUMBERS[name] then value = nil end
      elseif value == "" then
        value = nil
      end
      fields[name] = value
    end,
  })
  local code = slurm_job_submit(job, partitions, fields.user_id or 0)
  local changed = {}
  for key, value in pairs(fields) do
    if before[key] ~= value then changed[key] = value end
  end
  for key in pairs(before) do
    if fields[key] == nil then changed[key] = false end
  end
  return code, changed
end

return submit, load_filter
