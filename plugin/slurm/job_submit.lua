-- Berth's submit filter for Slurm: asks `berth serve` about each new job and applies its answer.
--
-- It runs inside slurmctld, under a lock, so it guarantees:
--   * it never rejects, loses or delays a job because of itself: every error leaves the job as it was;
--   * one deadline holds for the whole exchange, and a daemon that fails repeatedly is not asked for a
--     while (the breaker), so that not every submission waits for the deadline;
--   * it checks every answer itself: only partitions the submitter may use, never against an explicit
--     choice of the user, and either all edits or none;
--   * a file (the kill switch) turns it off at once, and `--comment=berth:off` does so for one job.
-- Install it beside slurm.conf with JobSubmitPlugins=lua; a site with rules of its own loads it from
-- its job_submit.lua and calls `berth_submit(job_desc, part_list, uid, check)` (docs/slurm.md).
-- Protocol: docs/protocol.md. Lua 5.1 and later. All of it is one file, so that no part can be missing
-- or of another version where a site copies it.

local CONFIG_PATH = os.getenv("BERTH_FILTER_CONFIG") or "/etc/berth/filter.conf"
local PROTOCOL = 1
local MAX_SCRIPT_BYTES = 65536
local MAX_HEAD_BYTES = 1048576 -- bytes of a script up to its first command
local MAX_HEAD_LINES = 5000
local MAX_DIRECTIVE_BYTES = 16384
local MAX_CHECK_INSTRUCTIONS = 1000000 -- Lua instructions of a site's own check, about 10 ms
local MAX_ARGUMENT_BYTES = 4096
local MAX_ARGUMENTS = 256
local MAX_REQUEST_BYTES = 131072
local MAX_REPLY_BYTES = 16384
local MAX_QUEUES_BYTES = 1000 -- of a list of partitions
local MAX_STAMP_BYTES = 512
local MAX_MESSAGE_BYTES = 500
local PARTITION_UP = 3
local PARTITION_NEEDS_RESERVATION = 0x10
local INFINITE = 4294967295 -- what Slurm has for "no limit" in 32 bits
local UNLIMITED_MIN = 5256000 -- ten years: longer than any time limit of a partition that has one
local UNSET_FROM = 65534 -- NO_VAL16; also larger than any count below this that Slurm keeps in 16 bits
local SAME_LOG_EVERY_S = 60
local NAMES_FOR_S = 60 -- seconds for which a user's name is cached

-- What a site may set in the configuration file: `key = value` lines, `#` starts a comment.
local config = {
  socket = "/run/berth/berth.sock",
  kill_switch = "/etc/berth/off",
  auto_partition = "auto",
  deadline_ms = 50,
  breaker_failures = 3,
  breaker_first_pause_s = 1,
  breaker_longest_pause_s = 30,
  reread_config_s = 10,
  messages = "changed",
}
local CHOICES = { messages = { changed = true, all = true, none = true } }
local RANGES = {
  deadline_ms = { 1, 1000 },
  breaker_failures = { 1, 1000 },
  breaker_first_pause_s = { 0.05, 86400 },
  breaker_longest_pause_s = { 0.05, 86400 },
  reread_config_s = { 0, 3600 },
}

-- A missing library must not keep slurmctld from starting: the filter then does nothing.
local have_socket, socket = pcall(require, "socket")
local have_unix, unix = pcall(require, "socket.unix")
local have_json, json = pcall(require, "cjson")
local libraries_loaded = have_socket and have_unix and have_json
local new_peer = type(unix) == "table" and unix.stream or unix

local now = have_socket and socket.gettime or os.time

-- A node's GPU types change only when slurmctld restarts, and then it loads this file again: the daemon
-- must not use GPU types that it read before this moment.
local loaded_at = math.ceil(now())

---------------------------------------------------------------------------------------------------
-- Logging: lines of one kind at most once a minute.

local last_logged = {}

local function log(kind, text)
  local moment = os.time()
  local last = last_logged[kind]
  if last and moment >= last and moment - last < SAME_LOG_EVERY_S then return end
  last_logged[kind] = moment
  slurm.log_info("berth: %s", (tostring(text):sub(1, 300)))
end

local function one_line(text, limit)
  return (text:gsub("%c+", " "):sub(1, limit))
end

---------------------------------------------------------------------------------------------------
-- Configuration, read again every few seconds. An invalid line keeps the key's old value.

local next_config_read = -1

local function accept_setting(key, value)
  local range = RANGES[key]
  if config[key] == nil then
    log("config:" .. key, CONFIG_PATH .. ": " .. key .. " is not a known key")
  elseif range then
    local number = tonumber(value)
    if number and number >= range[1] and number <= range[2] then
      config[key] = number
    else
      log("config:" .. key, CONFIG_PATH .. ": " .. key .. " must be a number from "
        .. range[1] .. " to " .. range[2])
    end
  elseif CHOICES[key] and not CHOICES[key][value] then
    log("config:" .. key, CONFIG_PATH .. ": " .. key .. " must be changed, all or none")
  elseif value ~= "" then
    config[key] = value
  end
end

local function read_config()
  local moment = now()
  if moment < next_config_read and next_config_read - moment <= config.reread_config_s then return end
  next_config_read = moment + config.reread_config_s
  local file = io.open(CONFIG_PATH, "r")
  if not file then return end
  local text = file:read(MAX_SCRIPT_BYTES)
  file:close()
  for line in (text or ""):gmatch("[^\n]+") do
    line = line:gsub("#.*", "")
    local key, value = line:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
    if key then accept_setting(key, value) end
  end
end

local NO_SUCH_FILE, NOT_A_FOLDER = 2, 20

-- Whether the kill switch exists. The filter is off, too, where that cannot be determined.
local function switched_off()
  local file, problem, number = io.open(config.kill_switch, "r")
  if file then
    file:close()
    return true
  end
  if number == NO_SUCH_FILE or number == NOT_A_FOLDER then return false end
  log("kill switch", tostring(problem) .. ": jobs go on unchanged")
  return true
end

---------------------------------------------------------------------------------------------------
-- The breaker: after several failures in a row the daemon is not asked for a while, then once again.

local breaker = { failures = 0, pause_s = nil, closed_again_at = nil, undecided = 0 }

-- Count a submission without an answer; the next request to the daemon reports the count.
function breaker.passed_by()
  if breaker.undecided == 0 then
    breaker.since_ms, breaker.opened = math.floor(1000 * now()), nil
  end
  breaker.undecided = breaker.undecided + 1
end

function breaker.report()
  if breaker.undecided == 0 then return nil end
  return { undecided = breaker.undecided, since_ms = breaker.since_ms, opened = breaker.opened }
end

function breaker.allows()
  local at = breaker.closed_again_at
  if not at then return true end
  local wait = at - now()
  return wait <= 0 or wait > config.breaker_longest_pause_s -- the clock was set back
end

function breaker.failed(problem)
  breaker.passed_by()
  breaker.failures = breaker.failures + 1
  if breaker.failures < config.breaker_failures then return end
  breaker.opened = 1
  local pause = breaker.pause_s and breaker.pause_s * 2 or config.breaker_first_pause_s
  breaker.pause_s = math.min(pause, config.breaker_longest_pause_s)
  breaker.closed_again_at = now() + breaker.pause_s
  log("breaker", string.format("no answer from %s (%s): jobs go on unchanged, next try in %g s",
    config.socket, tostring(problem), breaker.pause_s))
end

function breaker.succeeded()
  if breaker.closed_again_at then
    log("recovered", config.socket .. " answers again")
    last_logged.breaker = nil
  end
  breaker.failures, breaker.pause_s, breaker.closed_again_at = 0, nil, nil
  breaker.undecided = 0
end

---------------------------------------------------------------------------------------------------
-- The exchange: one request line, one reply line, one deadline for both.

-- The connection is cached between submissions, since connecting costs the daemon more time than some
-- answers. It is used again only after a complete exchange without an error.
local cached = { peer = nil, path = nil }

local function connect(seconds_left)
  local peer = new_peer()
  peer:settimeout(seconds_left())
  local connected, problem = peer:connect(config.socket)
  if connected then return peer end
  peer:close()
  return nil, problem
end

-- Return the cached connection, unless the daemon has closed it or has sent unexpected data on it.
local function take_cached()
  local peer, path = cached.peer, cached.path
  cached.peer = nil
  if not peer then return nil end
  peer:settimeout(0)
  local byte, problem = peer:receive(1)
  if path == config.socket and not byte and problem == "timeout" then return peer end
  peer:close()
  return nil
end

local function converse(peer, line, seconds_left)
  peer:settimeout(seconds_left())
  local sent, problem = peer:send(line)
  if not sent then return nil, problem end
  local received = ""
  while true do
    local wait = seconds_left()
    if wait <= 0 then return nil, "timeout" end
    -- Wait for one byte, then read all that has arrived, so that neither a partial answer nor an
    -- endless one can hold slurmctld's lock.
    peer:settimeout(wait)
    local first
    first, problem = peer:receive(1)
    if not first then return nil, problem end
    peer:settimeout(0)
    local rest, _, part = peer:receive(MAX_REPLY_BYTES)
    received = received .. first .. (rest or part or "")
    if #received > MAX_REPLY_BYTES then return nil, "the answer is too long" end
    local stop = received:find("\n", 1, true)
    if stop then
      if stop < #received then return nil, "more than one line" end
      return received
    end
  end
end

local function exchange(line)
  local limit = config.deadline_ms / 1000
  local stop = now() + limit
  local function seconds_left()
    return math.max(0, math.min(stop - now(), limit)) -- the clock may be set back meanwhile
  end
  -- A daemon that restarts may close a cached connection at the moment when it is used again: then
  -- a second, fresh connection is tried.
  for _, peer in ipairs({ take_cached() or false, false }) do
    local reused, problem = peer ~= false, nil
    if not reused then
      peer, problem = connect(seconds_left)
      if not peer then return nil, problem end
    end
    local fine, reply
    fine, reply, problem = pcall(converse, peer, line, seconds_left)
    if fine and reply then
      cached.peer, cached.path = peer, config.socket
      return reply
    end
    pcall(peer.close, peer)
    if not (reused and problem == "closed") then return nil, fine and problem or reply end
  end
end

local function parse(text)
  local fine, reply = pcall(json.decode, text)
  if not fine or type(reply) ~= "table" then return nil, "the answer is not a JSON object" end
  if reply.v ~= PROTOCOL then return nil, "another protocol version" end
  if reply.action ~= "keep" and reply.action ~= "edit" then return nil, "an unknown action" end
  return reply
end

---------------------------------------------------------------------------------------------------
-- The request: the job's properties that the daemon needs.

-- The daemon reads UTF-8 only, and refuses other bytes: one user's text in another encoding must not
-- count as a failure of the daemon.
local UTF8_SEQUENCES = {
  "[\194-\223][\128-\191]", "\224[\160-\191][\128-\191]", "[\225-\236\238\239][\128-\191][\128-\191]",
  "\237[\128-\159][\128-\191]", "\240[\144-\191][\128-\191][\128-\191]",
  "[\241-\243][\128-\191][\128-\191][\128-\191]", "\244[\128-\143][\128-\191][\128-\191]",
}

local function is_utf8(text)
  if not text:find("[\128-\255]") then return true end
  for _, sequence in ipairs(UTF8_SEQUENCES) do text = text:gsub(sequence, " ") end
  return not text:find("[\128-\255]")
end

local function text_of(value, limit)
  if type(value) ~= "string" or value == "" or #value > (limit or 1024) then return nil end
  if not is_utf8(value) then return nil end
  return value
end

local function count_of(value, unset)
  if type(value) ~= "number" or value >= (unset or UNSET_FROM) then return nil end
  return value
end

-- Return a time limit in minutes, nil where none is set. `--time=0` asks for no limit: only partitions
-- without a limit can take such a job.
local function limit_of(minutes)
  if minutes == INFINITE then return UNLIMITED_MIN end
  return count_of(minutes, slurm.NO_VAL)
end

local function in_list(list, name)
  return ("," .. list .. ","):find("," .. name .. ",", 1, true) ~= nil
end

local function allows(allowed, denied, name)
  if allowed and allowed ~= "" and allowed ~= "ALL" then
    return name ~= nil and in_list(allowed, name)
  end
  return not (denied and denied ~= "" and name and in_list(denied, name))
end

-- Return the partitions that the job could be sent to, by name and as records. Slurm's list contains
-- those whose user and group rules admit the submitter; other reasons to refuse the job (state,
-- account, QOS, a required reservation) are checked here.
local function usable_partitions(job, part_list, fields)
  local account = fields.account or fields.default_account
  local qos = fields.qos or job.default_qos
  local names, records = {}, {}
  for name, part in pairs(part_list) do
    local flags = part.flags or 0
    local submit_hosts = part.allow_alloc_nodes
    if name ~= config.auto_partition
      and part.state_up == PARTITION_UP
      and flags % (2 * PARTITION_NEEDS_RESERVATION) < PARTITION_NEEDS_RESERVATION
      and (not submit_hosts or submit_hosts == "" or submit_hosts == "ALL")
      and allows(part.allow_accounts, part.deny_accounts, account)
      and allows(part.allow_qos, part.deny_qos, qos) then
      names[#names + 1] = name
      records[name] = part
    end
  end
  table.sort(names)
  return names, records
end

-- Since 23.11 `--cpus-per-task=4` also appears in tres_per_task, as `cpu=4`, which is not a gres.
local CPUS_OF_TASK = "cpu=%d+"

local function gres_per_task(fields)
  local text = text_of(fields.tres_per_task)
  return text and text_of((text:gsub(CPUS_OF_TASK, ""):gsub("^,+", ""):gsub(",+$", "")))
end

local function first_gres(fields)
  return text_of(fields.gres) or text_of(fields.tres_per_job) or gres_per_task(fields)
    or text_of(fields.tres_per_socket)
end

-- Return the number of GPUs that the whole job requests by `--gpus` or `--gpus-per-task`; nil: it uses
-- neither (counts in `gres` are per node).
local function gpus_in_all(fields, tasks)
  local function counted(text)
    local sum
    for part in (text or ""):gmatch("[^,]+") do
      part = part:gsub("^gres[:/]", "")
      if part:find("^gpu%f[^%w]") then sum = (sum or 0) + tonumber(part:match("[:=](%d+)$") or 1) end
    end
    return sum
  end
  local of_tasks = counted(gres_per_task(fields))
  return count_of(counted(text_of(fields.tres_per_job)) or of_tasks and of_tasks * tasks, 2 ^ 53)
end

-- The fields by which a job can ask for GPUs, in the order in which they are read.
local GRES_FIELDS = { "gres", "tres_per_job", "tres_per_task", "tres_per_socket" }

-- Whether the text asks for GPUs of any type and for nothing else: "gpu:2", "gres:gpu", "gres/gpu=2".
local function names_no_type(text)
  local bare = text:gsub("^gres[:/]", "")
  return bare == "gpu" or bare:find("^gpu[:=]%d+$") ~= nil
end

-- Return the only field that requests GPUs, and its text, where it requests GPUs of any type; else nil.
local function untyped_field(fields)
  local asking_field, text
  for _, field in ipairs(GRES_FIELDS) do
    local value
    if field == "tres_per_task" then value = gres_per_task(fields) else value = text_of(fields[field]) end
    if value then
      if asking_field or value ~= fields[field] then return nil end
      asking_field, text = field, value
    end
  end
  if text and names_no_type(text) then return asking_field, text end
  return nil
end

-- Return the words after the script's name (nil where there are none, false where they cannot be sent),
-- and its path.
local function arguments(job)
  local argv = job.argv
  if not argv then return nil end
  local path = text_of(argv[0])
  if argv[1] == nil then return nil, path end
  local words, bytes = {}, 0
  for index = 1, #argv do -- argv[0] is the script
    bytes = bytes + #argv[index]
    if bytes > MAX_ARGUMENT_BYTES or index > MAX_ARGUMENTS then return false end
    if not is_utf8(argv[index]) then return false end
    words[index] = argv[index]
  end
  return words, path
end

-- Return whether the field holds any text, of any length and encoding.
local function is_written(value)
  return type(value) == "string" and value ~= ""
end

-- Fields that decide where a job can run: if one of them cannot be sent, the job stays where it is.
local DECISIVE = {
  "account", "qos", "partition", "features", "prefer", "gres", "tres_per_job", "tres_per_task",
  "tres_per_socket", "array_inx",
}

-- Return the job's comment; only its words for Berth where the rest cannot be sent.
local function sendable_comment(comment)
  if text_of(comment) or not is_written(comment) then return text_of(comment) end
  local words = {}
  for word in comment:gmatch("berth[%w-]*:[%w_.+@:/-]*") do words[#words + 1] = word end
  return text_of(table.concat(words, " "))
end

-- Fields that restrict the job's nodes. Excluded nodes count: they might be all the nodes that have the
-- resources Berth would request.
local PINS = { req_nodes = "nodelist", exc_nodes = "nodelist", licenses = "licenses" }

-- Return whether the user requires a property of each node (--tmp, --sockets-per-node,
-- --cores-per-socket, --threads-per-core). That also chooses nodes: elsewhere Slurm may refuse the job.
local function wants_special_nodes(job)
  local function over(field, unset, least)
    local value = count_of(job[field], unset)
    return value ~= nil and value > least
  end
  return over("pn_min_tmp_disk", slurm.NO_VAL, 0) or over("sockets_per_node", nil, 1)
    or over("cores_per_socket", nil, 1) or over("threads_per_core", nil, 1)
end

-- Options that sbatch obeys but does not pass to Lua: no GPU, a deadline, specialised cores.
-- `shortest`: the shortest prefix that getopt accepts, so that `--dead=...` counts as well.
local function is_none(value) return value:lower():gsub("^gres[:/]", "") == "none" end
local function is_zero(value) return value:find("^0+$") ~= nil or value:find("[:=]0+$") ~= nil end
local function is_any() return true end
local HIDDEN = {
  { name = "gres", shortest = "gre", hides = is_none },
  { name = "gpus-per-task", shortest = "gpus-per-t", hides = is_zero },
  { name = "deadline", shortest = "dea", hides = is_any },
  { name = "core-spec", shortest = "core-", hides = is_any },
  { name = "thread-spec", shortest = "thread-", hides = is_any },
}
-- The same options as environment variables of sbatch.
local HIDDEN_VARIABLES = {
  SBATCH_GRES = is_none, SBATCH_GPUS_PER_TASK = is_zero,
  SBATCH_CORE_SPEC = is_any, SBATCH_THREAD_SPEC = is_any,
}

-- Append the words of an #SBATCH directive, split as sbatch does: quotes group words, a backslash
-- escapes, # starts a comment.
local function add_words(text, words)
  if not text:find("[\"'\\]") then
    for word in text:gsub("#.*", ""):gmatch("%S+") do words[#words + 1] = word end
    return
  end
  local word, quote, escaped
  for index = 1, #text do
    local char = text:sub(index, index)
    if escaped then
      word, escaped = (word or "") .. char, false
    elseif char == "\\" then
      word, escaped = word or "", true
    elseif quote then
      if char == quote then quote = nil else word = word .. char end
    elseif char == '"' or char == "'" then
      word, quote = word or "", char
    elseif char == "#" then
      break
    elseif char:find("%s") then
      words[#words + 1] = word
      word = nil
    else
      word = (word or "") .. char
    end
  end
  words[#words + 1] = word
end

-- Return the words of a script's directives, which sbatch reads up to the first command. The second
-- result names another reason to leave the job unmoved: directives that are too long to read, or burst
-- buffers (whose plugin reads `#BB` and `#DW` lines from the script itself).
local function directives_of(script)
  local words, bytes, from = {}, 0, 1
  for _ = 1, MAX_HEAD_LINES do
    if from > #script then return words end
    if from > MAX_HEAD_BYTES then break end
    local stop = script:find("\n", from, true) or #script + 1
    local head = script:sub(from, math.min(stop - 1, from + 7))
    if head:find("^#SBATCH") or head:find("^#SLURM") then
      bytes = bytes + stop - from
      if bytes > MAX_DIRECTIVE_BYTES then break end
      add_words(script:sub(from + (head:find("^#SLURM") and 6 or 7), stop - 1), words)
    elseif head:find("^#BB") or head:find("^#DW") then
      return words, "a burst buffer of the script (" .. head:match("^#%w+") .. ")"
    else
      local first = script:find("%S", from)
      if first and first < stop and script:byte(first) ~= 35 then return words end -- a command
    end
    from = stop + 1
  end
  return words, "a script whose directives are too many to read"
end

-- Return the first hidden option among these words; nil: none.
local function hidden_option(words)
  for index, word in ipairs(words) do
    if word:find("^%-[a-zA-Z]*S") and word:find("^%-[HhIkKOQsvVWXZ]*S") then return word end
    local name, rest = word:match("^%-%-([%w-]+)(.*)$")
    for _, option in ipairs(name and HIDDEN or {}) do
      if #name >= #option.shortest and option.name:sub(1, #name) == name then
        local value = rest:match("^=(.*)$") or words[index + 1] or ""
        if option.hides(value) then return "--" .. option.name end
      end
    end
  end
  return nil
end

-- Return the option that is set only in the script or environment and forbids moving the job; nil: none.
local function hidden_choice(fields)
  if not fields.script then return nil end
  local words, other = directives_of(fields.script)
  local option = hidden_option(words) or other
  if option then return option end
  for variable, hides in pairs(HIDDEN_VARIABLES) do
    local value = fields.environment[variable]
    if is_written(value) and hides(value) then return variable end
  end
  return nil
end

-- Return the number in a value such as "gres:gpu:2"; nil where it has another form or several types.
local function per_gpu(value)
  local text = text_of(value)
  return text and tonumber(text:match("^gres[:/]gpu[:=](%d+)$") or text:match("^gpu[:=](%d+)$"))
end

-- Return whether the number of tasks and cores must stay: tasks share cores (--overcommit), or their
-- number follows from the GPUs.
local function keeps_shape(job, details)
  local tasks, cpus = details.tasks, count_of(job.min_cpus, slurm.NO_VAL)
  if tasks and cpus and cpus < tasks * (details.cpus_per_task or 1) then return true end
  return details.gres ~= nil and count_of(job.ntasks_per_tres) ~= nil
end

-- `shared` of --exclusive, --exclusive=user, --exclusive=mcs and (since 24.05) --exclusive=topo.
-- The second and third share their nodes with other jobs of the user or group.
local WHOLE_NODES = { [0] = 1, [2] = 2, [3] = 2, [4] = 1 }

-- Return the fields that several functions need, read once: for each read of a job's field slurmctld
-- searches by name.
local function read_fields(job, comment, choices)
  local fields = { comment = comment, reservation = job.reservation, script = job.script }
  for _, field in ipairs(DECISIVE) do fields[field] = job[field] end
  if not fields.account then fields.default_account = job.default_account end
  if fields.script then
    -- Only batch jobs have their environment; reading it of other jobs fills slurmctld's log.
    local environment = job.environment
    fields.environment = environment
    fields.workload, fields.mode = environment["BERTH_WORKLOAD"], environment["BERTH_MODE"]
    fields.quiet = environment["BERTH_QUIET"]
  end
  -- A job with --export=NONE, srun and salloc have these only from the client filter.
  fields.workload = fields.workload or choices.workload
  fields.mode = fields.mode or choices.mode
  return fields
end

-- User names by uid, cached: Slurm looks them up among the host's users, which takes longer than all
-- other reads together.
local names_of = { by_uid = {}, until_s = -1 }

local function user_of(job, uid)
  local moment = os.time()
  if moment > names_of.until_s or names_of.until_s - moment > NAMES_FOR_S then
    names_of.by_uid, names_of.until_s = {}, moment + NAMES_FOR_S
  end
  local name = names_of.by_uid[uid]
  if name == nil then
    name = text_of(job.user_name) or false
    names_of.by_uid[uid] = name
  end
  return name or nil
end

local function describe(job, partitions, fields)
  local script, uid = fields.script, job.user_id
  local details = {
    uid = uid,
    user = user_of(job, uid),
    account = text_of(fields.account),
    default_account = text_of(fields.default_account),
    qos = text_of(fields.qos),
    reservation = text_of(fields.reservation),
    name = text_of(job.name),
    queue = text_of(fields.partition),
    queues = partitions,
    comment = sendable_comment(fields.comment),
    nodes = count_of(job.min_nodes, slurm.NO_VAL),
    max_nodes = count_of(job.max_nodes, slurm.NO_VAL),
    tasks = count_of(job.num_tasks, slurm.NO_VAL),
    cpus_per_task = count_of(job.cpus_per_task),
    tasks_per_node = count_of(job.ntasks_per_node),
    memory_mib_per_node = count_of(job.min_mem_per_node, 2 ^ 53),
    memory_mib_per_cpu = count_of(job.min_mem_per_cpu, 2 ^ 53),
    gres = first_gres(fields),
    features = text_of(fields.features),
    prefer = text_of(fields.prefer),
    exclusive = WHOLE_NODES[job.shared],
    time_limit_min = limit_of(job.time_limit),
    array = text_of(fields.array_inx),
    het = count_of(job.het_job_offset, slurm.NO_VAL),
    scheduler_since_s = loaded_at,
  }
  local least = count_of(job.pn_min_cpus)
  -- sbatch derives this field from the tasks per node; a larger value was requested by --mincpus.
  local derived = (details.cpus_per_task or 1) * (details.tasks_per_node or 1)
  if least and least > derived then details.min_cpus_per_node = least end
  if details.gres then
    local nodes = details.nodes or 1
    details.gpus = gpus_in_all(fields, details.tasks or nodes * (details.tasks_per_node or 1))
    details.cpus_per_gpu = per_gpu(job.cpus_per_tres)
    details.memory_mib_per_gpu = per_gpu(job.mem_per_tres)
  end
  if script then
    details.requeue = count_of(job.requeue, 2)
    local words, path = arguments(job)
    if words ~= false then -- a script without its arguments would be another program
      details.script = text_of(script, MAX_SCRIPT_BYTES)
      details.arguments = words
    end
    details.script_path = path
    details.modules = text_of(fields.environment["LOADEDMODULES"], MAX_ARGUMENT_BYTES)
    -- The daemon must know that there is a script which cannot be sent.
    if not details.script then details.script_unread = 1 end
  end
  details.workload, details.mode = text_of(fields.workload), text_of(fields.mode)
  -- Later components of a heterogeneous batch job have no script, but are batch jobs too.
  local component = details.het and details.het > 0
  details.kind = (script or component) and "batch" or "interactive"
  local pinned = {}
  for field, name in pairs(PINS) do
    if is_written(job[field]) then pinned[#pinned + 1] = name end
  end
  if is_written(fields.reservation) then pinned[#pinned + 1] = "reservation" end
  if is_written(fields.qos) then pinned[#pinned + 1] = "qos" end
  if keeps_shape(job, details) then pinned[#pinned + 1] = "shape" end
  if wants_special_nodes(job) then pinned[#pinned + 1] = "nodelist" end
  if #pinned > 0 then details.pinned = pinned end
  return details
end

local function opted_out(fields)
  -- A text that cannot be read might mean "off".
  if fields.mode == "off" or is_written(fields.mode) and not text_of(fields.mode)
    or is_written(fields.workload) and not text_of(fields.workload) then
    return true
  end
  local comment = fields.comment
  for word in (type(comment) == "string" and comment or ""):gmatch("[^%s,;]+") do
    if word == "berth:off" then return true end
  end
  return false
end

---------------------------------------------------------------------------------------------------
-- Options that Berth cannot adapt to another partition; read only where a job is to be moved.

-- `alone`: has no effect on one node; `newer`: not passed to Lua by every version. Numbers count as set
-- from 1 on; the bits are those of `bitflags`.
local UNTRANSLATED = {
  { "batch_features", "--batch" }, { "burst_buffer", "--bb" }, { "clusters", "--clusters" },
  { "network", "--network" }, { "power_flags", "--power" }, { "reboot", "--reboot" },
  { "contiguous", "--contiguous", alone = true }, { "req_switch", "--switches", alone = true },
  { "req_context", "the SELinux context" }, { "selinux_context", "the SELinux context" },
  { "ntasks_per_board", "tasks by board" },
  { "threads_per_core", "--threads-per-core or --hint" },
  { "segment_size", "--segment", alone = true, newer = true },
  { "core_spec", "--core-spec", newer = true }, { "thread_spec", "--thread-spec", newer = true },
}
local BOUND_TO_SOCKETS = 0x10 -- --gres-flags=enforce-binding
local SPREAD = 0x100 -- --spread-job: over all nodes of the partition
local NOT_SHOWN = {} -- fields that this Slurm version does not pass to Lua

local function is_set(value)
  if type(value) == "number" then
    return value >= 1 and value ~= 65534 and value ~= 65535 and value < 4294967293
  end
  return value == true or is_written(value)
end

-- Return the partitions that the edits name; an empty table for one that the submitter may not use.
local function edited_partitions(edits, partitions)
  local parts = {}
  for name in tostring(edits.queue or ""):gmatch("[^,]+") do
    parts[#parts + 1] = partitions[name] or {}
  end
  return parts
end

-- Return a partition's default time limit in minutes; nil: unknown, or unlimited.
local function limit_by_default(part)
  return count_of(part.default_time, slurm.NO_VAL) or count_of(part.max_time, slurm.NO_VAL)
end

-- Return whether a job without a time limit would get less time there than its --time-min, which Slurm
-- would refuse where Berth writes the limit.
local function below_least_time(job, edits, details, partitions)
  local least = count_of(job.time_min, slurm.NO_VAL)
  if not least or least == 0 or details.time_limit_min then return false end
  for _, part in ipairs(edited_partitions(edits, partitions)) do
    local limit = edits.time_limit_min or limit_by_default(part)
    if not limit or limit < least then return true end
  end
  return false
end

-- Return whether the job goes to a partition that allocates whole nodes (OverSubscribe=EXCLUSIVE).
local function goes_to_whole_nodes(edits, partitions)
  for _, part in ipairs(edited_partitions(edits, partitions)) do
    if part.max_share == 0 then return true end
  end
  return false
end

-- Return whether a number of tasks that Berth sets could affect the script: it reads Slurm's variables,
-- submits jobs that inherit them, or names nodes for its steps.
local function reads_tasks(script)
  if type(script) ~= "string" then return false end
  for line in script:gmatch("[^\r\n]+") do
    if not line:find("^%s*#") and (line:find("SLURM_NTASKS", 1, true) or line:find("SLURM_NPROCS", 1, true)
      or line:find("tasks-per-node", 1, true) or line:find("%f[%w]sbatch%f[%W]")
      or line:find("%f[%w]salloc%f[%W]") or line:find("srun%s.*%-N%s*%d")
      or line:find("srun%s.*%-%-nodes")) then
      return true
    end
  end
  return false
end

-- Return whether Slurm chooses the number of nodes (--nodes=2-4): a job that names no tasks has one, or
-- --ntasks-per-node, on each node that it gets.
local function ranges_over_nodes(edits, details)
  return not edits.nodes and (details.max_nodes or 0) > (details.nodes or 1)
end

-- Return the option that forbids moving this job as the edits say; nil: none.
local function untranslated(job, edits, details, partitions, fields)
  for _, field in ipairs(DECISIVE) do
    local value = fields[field]
    if is_written(value) and not text_of(value) then
      return "a " .. field .. " that is too long or not in UTF-8"
    end
  end
  local nodes = edits.nodes or details.nodes or 1
  local tasks = edits.tasks or details.tasks or 1
  for _, rule in ipairs(UNTRANSLATED) do
    local field, option = rule[1], rule[2]
    if not NOT_SHOWN[field] and not (rule.alone and nodes == 1) then
      local value = job[field]
      if rule.newer and value == nil then NOT_SHOWN[field] = true end
      if is_set(value) then return option end
    end
  end
  if details.exclusive == 2 then return "--exclusive=user" end
  if count_of(job.ntasks_per_core) == 1 then return "--ntasks-per-core" end -- counts cores, not threads
  local flags = job.bitflags
  local function flagged(bit) return type(flags) == "number" and flags % (2 * bit) >= bit end
  if flagged(BOUND_TO_SOCKETS) and (edits.gres or details.gres) then
    return "--gres-flags=enforce-binding"
  end
  if flagged(SPREAD) and not (tasks == 1 and edits.tasks) then return "--spread-job" end
  if edits.queue and not details.tasks and details.kind == "batch" and not fields.whole_nodes then
    -- Berth would have to set a number of tasks; without it mpirun would start one rank per core.
    local whole = goes_to_whole_nodes(edits, partitions)
    if whole and details.min_cpus_per_node then return "--mincpus without a number of tasks" end
    if (whole or edits.gres) and ranges_over_nodes(edits, details) then
      return "a range of nodes without a number of tasks"
    end
    if whole and reads_tasks(fields.script) then
      return "a script without a number of tasks that reads it, or submits jobs"
    end
  end
  if edits.gres and not details.gres then
    -- Seen with 22.05: with GPUs Slurm allocates only the cores of the tasks.
    if details.min_cpus_per_node then return "--mincpus" end
    -- Seen with 26.05: such a job never starts there.
    if (count_of(job.ntasks_per_socket) or 0) >= 1 then return "--ntasks-per-socket" end
    -- These two options would apply to the GPUs that Berth adds.
    if is_written(job.cpus_per_tres) then return "--cpus-per-gpu" end
    if is_written(job.mem_per_tres) then return "--mem-per-gpu" end
    -- A Slurm that passes segments to Lua (26.05, not 24.11) gives no GPUs to tasks that share a core.
    if (count_of(job.ntasks_per_core) or 0) > 1 and job.segment_size ~= nil then
      return "--ntasks-per-core"
    end
  end
  if details.memory_mib_per_cpu == 0 then
    return "--mem-per-cpu=0 (all memory of a node)" -- another node may have more than its partition allows
  end
  if details.memory_mib_per_cpu and goes_to_whole_nodes(edits, partitions) then
    return "--mem-per-cpu" -- it would be counted for every core of the node
  end
  if below_least_time(job, edits, details, partitions) then return "--time-min" end
  local per_socket = count_of(job.ntasks_per_socket)
  -- Slurm requires the cores for this many tasks per socket even where the job has fewer tasks.
  if per_socket and per_socket >= 1 and (tasks > per_socket or edits.cpus_per_task) then
    return "--ntasks-per-socket"
  end
  return hidden_choice(fields)
end

-- Take out of the edits' list of partitions those to which the job cannot be moved. Return the option that
-- forbids moving it to any; nil and the members taken out: it can go to the others.
local function drop_untranslated(job, edits, details, partitions, fields)
  local option = untranslated(job, edits, details, partitions, fields)
  local listed = edits.queue
  if not option or type(listed) ~= "string" or not listed:find(",", 1, true) then return option end
  local kept, dropped = {}, {}
  for name in listed:gmatch("[^,]+") do
    edits.queue = name
    local forbids = untranslated(job, edits, details, partitions, fields)
    local members = forbids and dropped or kept
    members[#members + 1] = name
  end
  edits.queue = #kept > 0 and table.concat(kept, ",") or listed
  if #kept == 0 then return option end
  return nil, " (not in " .. table.concat(dropped, ",") .. ": " .. option .. ")"
end

---------------------------------------------------------------------------------------------------
-- The answer: checked completely, then applied completely.

local function is_whole(value, most)
  return type(value) == "number" and value >= 1 and value <= most and value % 1 == 0
end

local function is_plain(value, pattern, longest)
  return type(value) == "string" and #value <= (longest or 256) and value:find(pattern) ~= nil
end

local CHECKS = {
  queue = function(value)
    return is_plain(value, "^[%w_.%-][%w_.,%-]*$", MAX_QUEUES_BYTES)
      and not value:find(",,") and not value:find(",$")
  end,
  features = function(value) return is_plain(value, "^[%w_.:=&|!%[%]()*,%-]+$") end,
  gres = function(value) return is_plain(value, "^[%w_.:,/+%-]+$") end,
  nodes = function(value) return is_whole(value, 100000) end,
  tasks = function(value) return is_whole(value, 10000000) end,
  cpus_per_task = function(value) return is_whole(value, 65000) end,
  memory_mib_per_node = function(value) return is_whole(value, 2 ^ 40) end,
  memory_mib_per_cpu = function(value) return is_whole(value, 2 ^ 40) end,
  time_limit_min = function(value) return is_whole(value, UNLIMITED_MIN) end,
}

local LAYOUT = { "nodes", "tasks", "cpus_per_task" }
local SHAPE = { "nodes", "tasks", "cpus_per_task", "memory_mib_per_node", "memory_mib_per_cpu" }

-- Return whether the edits only add a type to GPUs that the user requested without a type.
local function adds_type(edits, details)
  return edits.gres ~= nil and details.gres ~= nil and names_no_type(details.gres)
    and type(edits.gres) == "string" and edits.gres:find("^gpu:[%w_.+%-]*%a[%w_.+%-]*:%d+$") ~= nil
end

-- Return why a job with these edits cannot go to a partition; nil: it can.
local function over_limits(part, name, edits, details, limit)
  if not part then return "partition " .. name .. " is not open to this submitter" end
  -- A job over a partition's limits would be refused or never start.
  if limit and part.max_time and limit > part.max_time then return "over the partition's time limit" end
  local nodes = edits.nodes or details.nodes or 1
  local most = not edits.nodes and details.max_nodes or nodes
  if part.max_nodes and most > part.max_nodes then return "over the partition's node limit" end
  if part.min_nodes and nodes < part.min_nodes then return "under the partition's node limit" end
  if part.total_nodes and nodes > part.total_nodes then return "more nodes than the partition has" end
  local cpus = (edits.tasks or details.tasks or 1) * (edits.cpus_per_task or details.cpus_per_task or 1)
  if part.total_cpus and cpus > part.total_cpus then return "more CPUs than the partition has" end
  return nil
end

-- Return whether the edits only make the memory request per node smaller. Then the job stays in its
-- partition.
local function only_fits_memory(edits, details)
  local asked, wanted = details.memory_mib_per_node, edits.memory_mib_per_node
  return wanted ~= nil and next(edits) == "memory_mib_per_node"
    and next(edits, "memory_mib_per_node") == nil
    and asked ~= nil and is_whole(wanted, asked - 1)
end

-- Return why these edits must not be applied; nil: they may.
local function objection(edits, details, partitions)
  if only_fits_memory(edits, details) then
    return details.kind == "interactive" and "an interactive job keeps its shape" or nil
  end
  local explicit = details.queue and details.queue ~= config.auto_partition
  local typing = adds_type(edits, details)
  if explicit and not (typing and next(edits) == "gres" and next(edits, "gres") == nil) then
    return "the user chose the partition"
  end
  if details.pinned then
    for _, pin in ipairs(details.pinned) do
      if pin == "nodelist" or pin == "reservation" then return "the user chose a " .. pin end
      for _, key in ipairs(pin == "shape" and SHAPE or {}) do
        if edits[key] then return "the user chose a shape that cannot be written anew" end
      end
    end
  end
  for key, value in pairs(edits) do
    local check = CHECKS[key]
    if not check then return "unknown edit " .. tostring(key) end
    if not check(value) then return "edit " .. key .. " has an impossible value" end
  end
  if edits.features and details.features then return "the user chose features" end
  if edits.gres and details.gres and not typing then return "the user chose gres" end
  if details.kind == "interactive" then
    -- srun and salloc start steps with the tasks and cores of their own options, not the job's; memory
    -- that they did not request is taken from the job.
    local asked = details.memory_mib_per_node or details.memory_mib_per_cpu or details.memory_mib_per_gpu
    for _, key in ipairs(asked and SHAPE or LAYOUT) do
      if edits[key] then return "an interactive job keeps its shape" end
    end
  end
  if edits.memory_mib_per_node and (edits.memory_mib_per_cpu or details.memory_mib_per_cpu)
    or edits.memory_mib_per_cpu and (details.memory_mib_per_node or details.memory_mib_per_gpu) then
    return "memory in two forms at once" -- Slurm forbids that
  end
  local asked = details.time_limit_min
  local limit = edits.time_limit_min or asked
  if edits.time_limit_min and asked and edits.time_limit_min < asked then
    return "the time limit would be lowered"
  end
  if not edits.queue then return not explicit and next(edits) and "no partition is named" or nil end
  -- With several partitions Slurm starts the job in the first with free resources: it must fit each.
  for name in edits.queue:gmatch("[^,]+") do
    local problem = over_limits(partitions[name], name, edits, details, limit)
    if problem then return problem end
  end
  return nil
end

-- Return the partition that the user requested; an empty table where it is unknown.
local function own_partition(fields, part_list)
  if is_written(fields.partition) then return part_list[fields.partition] or {} end
  for _, part in pairs(part_list) do
    if (part.flags or 0) % 2 == 1 then return part end -- the default one
  end
  return {}
end

-- Return the assignments that apply the edits, in order: { table, key, value }. Memory comes last,
-- because an unset memory request cannot be restored from Lua.
local function plan(job, edits, details, fields, partitions)
  local steps = {}
  local function set(field, value)
    if value ~= nil then steps[#steps + 1] = { job, field, value } end
  end
  set("partition", edits.queue)
  set("features", edits.features)
  if edits.gres and details.gres then
    -- The user's request stays in its field and form. A count is added where there is none: Slurm
    -- would read the type "1g.5gb" as a count.
    local field, text = untyped_field(fields)
    if not field then error("the GPUs are asked for in several ways") end
    local typed = text:gsub("gpu", (edits.gres:gsub(":%d+$", "")), 1)
    set(field, text:find("%d$") and typed or typed .. ":1")
    steps[#steps].seen = true
  else
    set("gres", edits.gres)
  end
  set("min_nodes", edits.nodes)
  set("max_nodes", edits.nodes)
  if edits.gres and not details.gres and ranges_over_nodes(edits, details) then
    set("max_nodes", details.nodes or 1) -- each further node would have the added GPUs, too
  end
  set("time_limit", edits.time_limit_min)
  local environment = fields.environment or {}
  -- srun inside the job takes its defaults from variables that sbatch has set for the old request.
  local function export(key, value, always)
    if always or environment[key] ~= nil then
      steps[#steps + 1] = { environment, key, tostring(value) }
    end
  end
  local nodes = edits.nodes or details.nodes or 1
  local named = edits.tasks or details.tasks
  local tasks = named or nodes * (details.tasks_per_node or 1)
  local cpus = edits.cpus_per_task or details.cpus_per_task or 1
  local tasks_per_node = math.ceil(tasks / nodes)
  if edits.tasks or edits.cpus_per_task then
    set("num_tasks", tasks)
    set("cpus_per_task", edits.cpus_per_task)
    local per_task = text_of(fields.tres_per_task)
    if per_task then set("tres_per_task", (per_task:gsub(CPUS_OF_TASK, "cpu=" .. cpus))) end
    -- sbatch has derived these from the old number of tasks: unchanged they would contradict the edit.
    set("min_cpus", tasks * cpus)
    if not details.min_cpus_per_node or details.min_cpus_per_node < cpus then
      set("pn_min_cpus", cpus)
    end
    if details.tasks_per_node and tasks_per_node < details.tasks_per_node then
      set("ntasks_per_node", tasks_per_node)
    end
  elseif edits.queue and not named and details.kind == "batch" and not fields.whole_nodes
    and not details.min_cpus_per_node and not ranges_over_nodes(edits, details)
    and not reads_tasks(fields.script) then
    -- A job that names no number of tasks has one per node. In a partition that allocates whole nodes,
    -- or with another default of cores, srun and mpirun would start as many as fit.
    set("num_tasks", tasks)
    export("SLURM_NTASKS", tasks, true)
    export("SLURM_NPROCS", tasks, true)
  end
  if edits.tasks or edits.cpus_per_task or edits.nodes then
    export("SLURM_NTASKS", tasks)
    export("SLURM_NPROCS", tasks)
    export("SLURM_NTASKS_PER_NODE", tasks_per_node)
    export("SLURM_CPUS_PER_TASK", cpus, edits.cpus_per_task)
    export("SRUN_CPUS_PER_TASK", cpus)
    local per_task = environment["SLURM_TRES_PER_TASK"]
    if per_task then export("SLURM_TRES_PER_TASK", (per_task:gsub(CPUS_OF_TASK, "cpu=" .. cpus))) end
  end
  set("min_mem_per_cpu", edits.memory_mib_per_cpu)
  set("min_mem_per_node", edits.memory_mib_per_node)
  return steps
end

local function carry_out(steps)
  local done = {}
  for _, step in ipairs(steps) do
    local target, key, value = step[1], step[2], step[3]
    local before
    local fine, problem = pcall(function()
      before = step.before
      if before == nil then before = target[key] end
      target[key] = value
      if step.seen and target[key] ~= value then error(key .. " cannot be changed") end
    end)
    if not fine then
      for index = #done, 1, -1 do
        local undo = done[index]
        pcall(function() undo[1][undo[2]] = undo[3] end)
      end
      return nil, problem
    end
    done[#done + 1] = { target, key, before == nil and "" or before }
  end
  return done
end

-- Return the values that the edits replace, and the partitions that they name, for `berth site slurm
-- putback` and berth_modify: `was=partition:auto;gres:-;... in=gpu`. `-` means unset; special characters
-- of a value are written %XX.
local function replaced_values(job, edits, steps, details)
  local values = {}
  local function note(key, value)
    local text = "-"
    if type(value) == "number" then
      if value < 4294967293 and value ~= 65534 then text = string.format("%.0f", value) end
    elseif is_written(value) then
      text = value:gsub("[^%w_.]", function(c) return string.format("%%%02X", c:byte()) end)
    end
    values[#values + 1] = key .. ":" .. text
  end
  for _, step in ipairs(steps) do
    if step[1] == job then
      step.before = job[step[2]]
      note(step[2], step.before)
    end
  end
  note("memory_mib_per_node", details.memory_mib_per_node)
  note("memory_mib_per_cpu", details.memory_mib_per_cpu)
  return " was=" .. table.concat(values, ";") .. (edits.queue and " in=" .. edits.queue or "")
end

local function stamped(job, text, addition)
  text = one_line(text, MAX_STAMP_BYTES) .. (addition or "")
  local before = job.admin_comment -- another filter of this site may have written one
  return one_line(before and before .. " " .. text or text, 4 * MAX_STAMP_BYTES)
end

local function stamp(job, text)
  if text_of(text, MAX_STAMP_BYTES) then job.admin_comment = stamped(job, text) end
end

---------------------------------------------------------------------------------------------------
-- The line for the user. `slurm.log_user` writes before sbatch prints the id, to a terminal or not, and
-- sbatch puts "error:" before it where Slurm refuses the job: hence "note:". Where cli_filter.lua is
-- installed, it adds a word to the comment, and prints the line from AdminComment once the job is
-- accepted.

local CLIENT_WORD = "^(.-)%s?berth%-client:(%l+)([^%s]*)$"

-- Return the client filter's word (`tty`: a person at a terminal; another word: no person; nil: not
-- installed), the comment without that word, which is removed from the job, and the values that follow
-- the word: `mode` and `workload` of the environment in which the job is submitted.
local function client_of(job)
  local comment, choices = job.comment, {}
  if type(comment) ~= "string" then return nil, nil, choices end
  local own_words, client, rest = comment:match(CLIENT_WORD)
  if not client then return nil, comment, choices end
  for key, value in rest:gmatch(";(%l+)=([^;]+)") do
    choices[key] = value:gsub("%%(%d%d%d)", function(octal) return string.char(tonumber(octal, 8) % 256) end)
  end
  job.comment = own_words
  return client, own_words ~= "" and own_words or nil, choices
end

local function tell(audience, job, text)
  if not text_of(text, MAX_REPLY_BYTES) then return end
  text = one_line(text:gsub("^[Bb]erth: *", ""), MAX_MESSAGE_BYTES - #"berth: note: ")
  if audience.client == "tty" then
    local encoded = text:gsub("[^%w_.]", function(c) return string.format("%%%03o", c:byte()) end)
    local before = job.admin_comment
    if #(before or "") + #encoded > 4 * MAX_STAMP_BYTES then return end
    job.admin_comment = (before and before .. " " or "") .. "said=" .. encoded
  elseif not audience.client then
    local quiet = audience.quiet
    if quiet == nil and job.script then quiet = job.environment["BERTH_QUIET"] end
    if not is_written(quiet) or quiet == "0" then slurm.log_user("berth: note: %s", text) end
  end
end

---------------------------------------------------------------------------------------------------
-- The site's own check is called with the job as the edits would make it. It gets a view: reads show
-- the edited values, and writes are collected, so that nothing must be undone where the check refuses.

local OTHER_MEMORY = { min_mem_per_node = "min_mem_per_cpu", min_mem_per_cpu = "min_mem_per_node" }
local TABLES_OF_JOB = { environment = true, spank_job_env = true }

-- Return a view of `target`, a function that sets the values it shows, and its views of inner tables.
-- Values written to the view are appended to `writes` as assignments.
local function view_of(target, writes)
  local shown, values, views = {}, {}, {}
  local function show(key, value)
    shown[key], values[key] = true, value ~= "" and value or nil
    local other = OTHER_MEMORY[key]
    if other then shown[other], values[other] = true, nil end
  end
  local view = setmetatable({}, {
    __index = function(_, key)
      if views[key] then return views[key] end
      if shown[key] then return values[key] end
      local value = target[key]
      if TABLES_OF_JOB[key] and type(value) == "table" then
        views[key] = view_of(value, writes)
        return views[key]
      end
      return value
    end,
    __newindex = function(_, key, value)
      if value == nil then error(tostring(key) .. " cannot be set to nil", 2) end
      show(key, value)
      writes[#writes + 1] = { target, key, value }
    end,
  })
  return view, show, views
end

-- Return a view of the job after these assignments; the check's writes are appended to `writes`.
local function edited_view(job, fields, steps, writes)
  local view, show, views = view_of(job, writes)
  local environment, show_variable
  if fields.environment then
    environment, show_variable = view_of(fields.environment, writes)
    views.environment = environment
  end
  for _, step in ipairs(steps) do
    if step[1] == job then
      show(step[2], step[3])
    elseif step[1] == fields.environment then -- interactive jobs have none
      show_variable(step[2], step[3])
    end
  end
  return view
end

-- Run a function that may never end; return true and its value, or false and the error. A function that
-- waits inside a C function (`os.execute`, a slow pattern) cannot be stopped. (Not in a coroutine:
-- slurmctld answers reads of a job on its main stack only.)
local function run_bounded(call, ...)
  if type(debug) ~= "table" or not debug.sethook then return pcall(call, ...) end
  local hook, mask, count = debug.gethook()
  local ours = debug.getinfo(1, "f").func
  local function stop()
    if debug.getinfo(2, "f").func == ours then -- the function has ended
      debug.sethook()
      return
    end
    debug.sethook(stop, "", 1) -- also leaves every pcall inside the function
    error("it did not end", 0)
  end
  debug.sethook(stop, "", MAX_CHECK_INSTRUCTIONS)
  local fine, value = pcall(call, ...)
  if hook then debug.sethook(hook, mask, count) else debug.sethook() end
  return fine, value
end

-- Call the site's check with the edited job. Where it accepts, return true, its writes and messages.
local function accepted_by(check, job, fields, steps, part_list, uid)
  local writes, messages = {}, {}
  local view = edited_view(job, fields, steps, writes)
  local log_user, user_msg = slurm.log_user, slurm.user_msg
  slurm.log_user = function(...) messages[#messages + 1] = string.format(...) end
  slurm.user_msg = function(text) messages[#messages + 1] = tostring(text) end
  local fine, code = run_bounded(check, view, part_list, uid)
  slurm.log_user, slurm.user_msg = log_user, user_msg
  if fine and code == slurm.SUCCESS then return true, writes, messages end
  if not fine then log("check", "the site's check failed for an edited job: " .. tostring(code)) end
  return false
end

---------------------------------------------------------------------------------------------------

-- Write the decision id with the filter's reason to a job that the filter does not move as decided.
local function stamp_unmoved(job, text, code)
  if not text_of(text, MAX_STAMP_BYTES) then return end
  text = text:gsub(" action=%S+", " action=keep", 1):gsub(" code=%S+", " code=" .. code, 1)
  stamp(job, text)
end

local function ask(details)
  local fine, line = pcall(json.encode, {
    v = PROTOCOL, op = "decide", scheduler = "slurm", job = details, breaker = breaker.report(),
  })
  if not fine or #line >= MAX_REQUEST_BYTES then return nil end -- the job's fault, not the daemon's
  local text, problem = exchange(line .. "\n")
  local reply
  if text then reply, problem = parse(text) end
  if reply then breaker.succeeded() else breaker.failed(problem) end
  return reply
end

-- Apply the edits of a reply. Return true; or nil with the problem, or with the code to record.
local function make_edit(job, reply, details, partitions, fields, site)
  local problem = objection(reply.edits, details, partitions)
  if not problem and not text_of(reply.stamp, MAX_STAMP_BYTES) then
    problem = "no stamp would explain it"
  end
  if problem then return nil, problem end
  local steps = plan(job, reply.edits, details, fields, partitions)
  -- The decision id is written first: no job is changed without it.
  local text = stamped(job, reply.stamp, replaced_values(job, reply.edits, steps, details))
  table.insert(steps, 1, { job, "admin_comment", text })
  local messages = {}
  if site.check then
    local accepts, writes
    accepts, writes, messages = accepted_by(site.check, job, fields, steps, site.part_list, site.uid)
    if not accepts then return nil, nil, "site-rule" end
    for _, step in ipairs(writes) do
      if step[1] == job and step[2] == "admin_comment" and not tostring(step[3]):find(text, 1, true) then
        step[3] = step[3] .. " " .. text
      end
      steps[#steps + 1] = step
    end
  end
  local done
  done, problem = carry_out(steps)
  if not done then return nil, problem end
  for _, line in ipairs(messages) do slurm.log_user("%s", line) end
  return true
end

-- Decide about one job. Return whether the daemon answered, and whether the site's check has accepted
-- the job as it now is.
local function consider(job, comment, choices, audience, site)
  if not libraries_loaded then return false end
  read_config()
  if switched_off() then return false end
  if not breaker.allows() then
    breaker.passed_by()
    return false
  end
  local fields = read_fields(job, comment, choices)
  audience.quiet = fields.quiet or false
  if opted_out(fields) then return true end
  local names, partitions = usable_partitions(job, site.part_list, fields)
  if #names == 0 then return true end
  local details = describe(job, names, fields)
  local reply = ask(details)
  if not reply then return false end
  audience.text = reply.message
  if reply.action ~= "edit" or type(reply.edits) ~= "table" then
    stamp(job, reply.stamp)
    return true
  end
  fields.whole_nodes = details.exclusive or own_partition(fields, site.part_list).max_share == 0
  local option, without
  if not only_fits_memory(reply.edits, details) then
    option, without = drop_untranslated(job, reply.edits, details, partitions, fields)
  end
  if without and text_of(reply.message) then audience.text = reply.message .. without end
  if option then
    stamp_unmoved(job, reply.stamp, "untranslated")
    audience.text = config.messages == "all"
      and "the job stays as it is: Berth cannot carry " .. option .. " to another place" or nil
    return true
  end
  local done, problem, code = make_edit(job, reply, details, partitions, fields, site)
  if done then return true, site.check ~= nil end
  audience.text = nil
  if code then
    stamp_unmoved(job, reply.stamp, code)
    return true
  end
  log("refused", "an answer was not carried out: " .. tostring(problem))
  return false
end

-- Decide about a job at a site with rules of its own. `check(job_desc, part_list, uid)`, written like a
-- slurm_job_submit, is called with the job as Berth would change it. Unless it returns slurm.SUCCESS,
-- the job stays as its user wrote it, and check is called with that job as if Berth were not there.
function berth_submit(job_desc, part_list, uid, check)
  local audience, comment, choices, accepted = {}, nil, {}, false
  pcall(function() audience.client, comment, choices = client_of(job_desc) end)
  local site = { check = check, part_list = part_list, uid = uid }
  local fine, answered, agreed = pcall(consider, job_desc, comment, choices, audience, site)
  if fine then
    accepted = agreed
  else
    pcall(log, "error", answered)
    answered, audience.text = false, nil
  end
  if check and not accepted then
    local code = check(job_desc, part_list, uid)
    if code ~= slurm.SUCCESS then return code end
  end
  pcall(function()
    if not answered and config.messages == "all" and job_desc.partition == config.auto_partition then
      audience.text = "no placement now, the job stays in partition " .. config.auto_partition
    end
    tell(audience, job_desc, audience.text)
  end)
  return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  return berth_submit(job_desc, part_list, submit_uid)
end

---------------------------------------------------------------------------------------------------
-- `scontrol update Partition=...` of a pending job that Berth moved: the job goes there as its user wrote
-- it. Slurm refuses the whole update where its user may not write a field (AdminComment, tasks per node),
-- and takes no empty text from Lua (features): `berth site slurm putback` writes these afterwards. It
-- never takes GPUs or their type away from a job (seen with 22.05 and 24.11).

local ROOT = 0
local CONFIGURATION_UNAVAILABLE = 2014 -- "Requested node configuration is not available"
local UNSET_AS = { num_tasks = 1, cpus_per_task = 1, min_cpus = 1, pn_min_cpus = 1, min_nodes = 1 }

-- Return the values before Berth's edits, by field, where the job is still in a partition that Berth
-- wrote; nil: Berth did not move it, or somebody has moved it since.
local function values_before(job_rec)
  local stamp = tostring(job_rec.admin_comment):match("berth/1 .*$")
  local was, written = (stamp or ""):match(" action=edit .* was=(%S+) in=(%S+)")
  if not was then return nil end
  for name in tostring(job_rec.partition):gmatch("[^,]+") do
    if not in_list(written, name) then return nil end
  end
  local before = {}
  for key, value in was:gmatch("([%w_]+):([^;]*)") do
    before[key] = value:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  end
  return before
end

-- Write the job's own values beside its new partition. Return the code for Slurm: a job whose GPUs Berth
-- added would wait for ever elsewhere, so only root may move it, and an operator who writes AdminComment.
local function undo_edits(job_desc, job_rec, before, target, modify_uid)
  for _, field in ipairs(GRES_FIELDS) do
    if before[field] and modify_uid ~= ROOT and not is_written(job_desc.admin_comment) then
      slurm.log_user("berth: %s", "Slurm cannot take back the GPUs that Berth gave this job: scancel it, and "
        .. "submit it with --comment=berth:off")
      return CONFIGURATION_UNAVAILABLE
    end
  end
  local function restore(field, unset)
    local value = before[field] ~= "-" and tonumber(before[field]) or unset
    if before[field] and value and not is_set(job_desc[field]) then job_desc[field] = value end
  end
  if tonumber(before.min_cpus) == job_rec.min_cpus then
    before.pn_min_cpus = nil -- 24.11 lowers both where only this one changes
  end
  for field, unset in pairs(UNSET_AS) do restore(field, unset) end
  restore("max_nodes", target.total_nodes)
  restore("time_limit", limit_by_default(target))
  if before.features and before.features ~= "-" and not is_written(job_desc.features) then
    job_desc.features = before.features
  end
  if before.min_mem_per_cpu or before.min_mem_per_node then
    local by_cpu, by_node = tonumber(before.memory_mib_per_cpu), tonumber(before.memory_mib_per_node)
    if not (by_cpu or by_node) then
      by_cpu, by_node = count_of(target.def_mem_per_cpu, 2 ^ 53), count_of(target.def_mem_per_node, 2 ^ 53)
    end
    if not (job_desc.min_mem_per_cpu or job_desc.min_mem_per_node) then
      if by_cpu then
        job_desc.min_mem_per_cpu = by_cpu
      elseif by_node then
        job_desc.min_mem_per_node = by_node
      end
    end
  end
  return slurm.SUCCESS
end

-- Decide about an update of a job. A site with a slurm_job_modify of its own calls this from it.
function berth_modify(job_desc, job_rec, part_list, modify_uid)
  local fine, code = pcall(function()
    local wanted = job_desc.partition
    if not is_written(wanted) or wanted == job_rec.partition then return nil end
    local before = values_before(job_rec)
    return before and undo_edits(job_desc, job_rec, before, part_list[wanted:match("^[^,]+")] or {}, modify_uid)
  end)
  if not fine then pcall(log, "error", code) end
  return fine and code or slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return berth_modify(job_desc, job_rec, part_list, modify_uid)
end

pcall(function()
  if not libraries_loaded then
    log("library", "lua-socket or lua-cjson is missing: jobs go on unchanged")
  end
end)

return slurm.SUCCESS
