-- Berth's submit filter for Slurm: asks `berth serve` about each new job and carries out its answer.
--
-- It runs inside slurmctld, under a lock, so it keeps these promises:
--   * it never rejects, loses or delays a job because of itself: every error leaves the job as it was;
--   * one deadline holds for the whole exchange, and a daemon that fails repeatedly is left alone
--     for a while (the breaker), so that it does not cost each submission its deadline;
--   * it checks every answer itself: only partitions the submitter may use, never over an explicit
--     choice of the user, and either all edits or none;
--   * a file (the kill switch) turns it off at once, and `--comment=berth:off` does so for one job.
-- Install it beside slurm.conf with JobSubmitPlugins=lua; a site with rules of its own loads it from
-- its job_submit.lua and calls `berth_submit(job_desc, part_list, uid, check)` (docs/slurm.md).
-- Protocol: docs/protocol.md. Lua 5.1 and later.

local CONFIG_PATH = os.getenv("BERTH_FILTER_CONFIG") or "/etc/berth/filter.conf"
local PROTOCOL = 1
local MAX_SCRIPT_BYTES = 65536
local MAX_HEAD_BYTES = 1048576 -- of a script, up to its first command
local MAX_HEAD_LINES = 5000
local MAX_DIRECTIVE_BYTES = 16384
local MAX_CHECK_INSTRUCTIONS = 1000000 -- of a site's own check, about 10 ms
local MAX_ARGUMENT_BYTES = 4096
local MAX_ARGUMENTS = 256
local MAX_REQUEST_BYTES = 131072
local MAX_REPLY_BYTES = 16384
local MAX_STAMP_BYTES = 512
local MAX_MESSAGE_BYTES = 400
local PARTITION_UP = 3
local PARTITION_NEEDS_RESERVATION = 0x10
local UNSET_FROM = 65534 -- NO_VAL16; also larger than any count below this that Slurm keeps in 16 bits
local SAME_LOG_EVERY_S = 60
local NAMES_FOR_S = 60 -- so long a user's name is not looked up again

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
local usable = have_socket and have_unix and have_json
local new_peer = type(unix) == "table" and unix.stream or unix

local now = have_socket and socket.gettime or os.time

-- A node's GPU types change only when slurmctld is started anew, and then this file is loaded: what
-- the daemon read of them before is of no use.
local loaded_at = math.ceil(now())

---------------------------------------------------------------------------------------------------
-- Logging: the same kind of line at most once a minute.

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
-- Configuration, read again now and then. A line that cannot be accepted keeps the old value.

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

-- A switch that cannot be looked at (its file or folder is another user's alone) stops us, too.
local function killed()
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
-- The breaker: after some failures in a row the daemon is not asked for a while, then once again.

local breaker = { failures = 0, pause_s = nil, closed_again_at = nil, undecided = 0 }

-- A submission that goes by without an answer; the next question says how many there were.
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
-- The exchange: one line out, one line back, one deadline for all of it.

-- The connection is kept from one submission to the next: connecting costs the daemon more than
-- some answers do. It is used again only after a whole, clean exchange.
local kept = { peer = nil, path = nil }

local function connect(left)
  local peer = new_peer()
  peer:settimeout(left())
  local connected, problem = peer:connect(config.socket)
  if connected then return peer end
  peer:close()
  return nil, problem
end

-- The kept connection, unless the daemon has closed it or there is something unasked on it.
local function take_kept()
  local peer, path = kept.peer, kept.path
  kept.peer = nil
  if not peer then return nil end
  peer:settimeout(0)
  local byte, problem = peer:receive(1)
  if path == config.socket and not byte and problem == "timeout" then return peer end
  peer:close()
  return nil
end

local function converse(peer, line, left)
  peer:settimeout(left())
  local sent, problem = peer:send(line)
  if not sent then return nil, problem end
  local received = ""
  while true do
    local wait = left()
    if wait <= 0 then return nil, "timeout" end
    -- Wait for one byte, then take what else is there, so that neither a short answer nor an
    -- endless one can hold the lock.
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
  local function left()
    return math.max(0, math.min(stop - now(), limit)) -- the clock may be set back meanwhile
  end
  -- A daemon that restarts, or tidies up, may close a kept connection just as it is used again.
  for _, peer in ipairs({ take_kept() or false, false }) do
    local reused, problem = peer ~= false, nil
    if not reused then
      peer, problem = connect(left)
      if not peer then return nil, problem end
    end
    local fine, reply
    fine, reply, problem = pcall(converse, peer, line, left)
    if fine and reply then
      kept.peer, kept.path = peer, config.socket
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
-- The request: what the daemon needs to know of the job.

-- The daemon reads UTF-8; one user's bytes in another encoding must not look like a broken daemon.
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

local function listed(list, name)
  return ("," .. list .. ","):find("," .. name .. ",", 1, true) ~= nil
end

local function allows(allowed, denied, name)
  if allowed and allowed ~= "" and allowed ~= "ALL" then
    return name ~= nil and listed(allowed, name)
  end
  return not (denied and denied ~= "" and name and listed(denied, name))
end

-- Slurm lists the partitions whose user and group rules admit the submitter; what else would make
-- it refuse the job there (state, account, QOS, a reservation needed) is checked here.
local function usable_partitions(job, part_list, own)
  local account = own.account or own.default_account
  local qos = own.qos or job.default_qos
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

-- Since 23.11 `--cpus-per-task=4` also stands in tres_per_task, as `cpu=4`: that is no gres.
local CPUS_OF_TASK = "cpu=%d+"

local function gres_per_task(own)
  local text = text_of(own.tres_per_task)
  return text and text_of((text:gsub(CPUS_OF_TASK, ""):gsub("^,+", ""):gsub(",+$", "")))
end

local function first_gres(own)
  return text_of(own.gres) or text_of(own.tres_per_job) or gres_per_task(own)
    or text_of(own.tres_per_socket)
end

-- Counts in `gres` are of a node; those of `--gpus` are of the whole job, of `--gpus-per-task` of
-- each of its tasks. Nil: no such form.
local function gpus_in_all(own, tasks)
  local function counted(text)
    local sum
    for part in (text or ""):gmatch("[^,]+") do
      part = part:gsub("^gres[:/]", "")
      if part:find("^gpu%f[^%w]") then sum = (sum or 0) + tonumber(part:match("[:=](%d+)$") or 1) end
    end
    return sum
  end
  local of_tasks = counted(gres_per_task(own))
  return count_of(counted(text_of(own.tres_per_job)) or of_tasks and of_tasks * tasks, 2 ^ 53)
end

-- Where a job can ask for GPUs, in the order in which they are looked for.
local GRES_FIELDS = { "gres", "tres_per_job", "tres_per_task", "tres_per_socket" }

-- "gpu:2", "gres:gpu", "gres/gpu=2": GPUs of any type, and nothing else.
local function names_no_type(text)
  local bare = text:gsub("^gres[:/]", "")
  return bare == "gpu" or bare:find("^gpu[:=]%d+$") ~= nil
end

-- The field of a job that asks for GPUs of any type, if that is all it asks for; and its text.
local function untyped_field(own)
  local found, text
  for _, field in ipairs(GRES_FIELDS) do
    local here
    if field == "tres_per_task" then here = gres_per_task(own) else here = text_of(own[field]) end
    if here then
      if found or here ~= own[field] then return nil end
      found, text = field, here
    end
  end
  if text and names_no_type(text) then return found, text end
  return nil
end

-- What was written after the script's name: nil for none, false for what cannot be sent.
local function arguments(job)
  local argv = job.argv
  if not argv or argv[1] == nil then return nil end
  local found, bytes = {}, 0
  for index = 1, #argv do -- argv[0] is the script
    bytes = bytes + #argv[index]
    if bytes > MAX_ARGUMENT_BYTES or index > MAX_ARGUMENTS then return false end
    if not is_utf8(argv[index]) then return false end
    found[index] = argv[index]
  end
  return found
end

-- Whether the user wrote anything there, whatever its length and its bytes.
local function written(value)
  return type(value) == "string" and value ~= ""
end

-- Texts that decide where a job can run: one that cannot be sent leaves the job where it is.
local DECISIVE = {
  "account", "qos", "partition", "features", "prefer", "gres", "tres_per_job", "tres_per_task",
  "tres_per_socket", "array_inx",
}

-- The comment, or Berth's own words in it where the rest cannot be sent.
local function sendable_comment(comment)
  if text_of(comment) or not written(comment) then return text_of(comment) end
  local words = {}
  for word in comment:gmatch("berth[%w-]*:[%w_.+@:/-]*") do words[#words + 1] = word end
  return text_of(table.concat(words, " "))
end

-- Nodes that the user excludes might be all that have what Berth would ask for.
local PINS = { req_nodes = "nodelist", exc_nodes = "nodelist", licenses = "licenses" }

-- What a node must have (--tmp, --sockets-per-node, --cores-per-socket, --threads-per-core) is a
-- choice of nodes, too: elsewhere Slurm may refuse the job.
local function wants_special_nodes(job)
  local function over(field, unset, least)
    local value = count_of(job[field], unset)
    return value ~= nil and value > least
  end
  return over("pn_min_tmp_disk", slurm.NO_VAL, 0) or over("sockets_per_node", nil, 1)
    or over("cores_per_socket", nil, 1) or over("threads_per_core", nil, 1)
end

-- Directives that sbatch acts on and does not show to Lua: "no GPU", a deadline, cores set aside.
-- `shortest`: what getopt takes for the option, so that `--dead=...` counts as well.
local function says_none(value) return value:lower():gsub("^gres[:/]", "") == "none" end
local function says_zero(value) return value:find("^0+$") ~= nil or value:find("[:=]0+$") ~= nil end
local function anything() return true end
local HIDDEN = {
  { name = "gres", shortest = "gre", hides = says_none },
  { name = "gpus-per-task", shortest = "gpus-per-t", hides = says_zero },
  { name = "deadline", shortest = "dea", hides = anything },
  { name = "core-spec", shortest = "core-", hides = anything },
  { name = "thread-spec", shortest = "thread-", hides = anything },
}
-- The same choices as sbatch takes them from its environment.
local HIDDEN_VARIABLES = {
  SBATCH_GRES = says_none, SBATCH_GPUS_PER_TASK = says_zero,
  SBATCH_CORE_SPEC = anything, SBATCH_THREAD_SPEC = anything,
}

-- Add the words of a directive, split as sbatch does: quotes group, a backslash escapes, # ends.
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

-- The words of all directives of a script: those before its first command, which sbatch reads.
-- A second value says what else keeps the job: what cannot be read to its end, or burst buffers
-- (their plugin reads `#BB`, `#DW` and the like from the script itself).
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

-- The hidden choice among these words of options, or nil.
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

-- What keeps a job by its script or its environment alone, or nil.
local function unseen_choice(own)
  if not own.script then return nil end
  local words, other = directives_of(own.script)
  local option = hidden_option(words) or other
  if option then return option end
  for variable, hides in pairs(HIDDEN_VARIABLES) do
    local value = own.environment[variable]
    if written(value) and hides(value) then return variable end
  end
  return nil
end

-- "gres:gpu:2" as the number in it; nil where there is none, or more than one kind.
local function per_gpu(value)
  local text = text_of(value)
  return text and tonumber(text:match("^gres[:/]gpu[:=](%d+)$") or text:match("^gpu[:=](%d+)$"))
end

-- Tasks that share cores (--overcommit) or are counted by GPU have a shape of their own.
local function keeps_shape(job, details)
  local tasks, cpus = details.tasks, count_of(job.min_cpus, slurm.NO_VAL)
  if tasks and cpus and cpus < tasks * (details.cpus_per_task or 1) then return true end
  return details.gres ~= nil and count_of(job.ntasks_per_tres) ~= nil
end

-- `shared` of --exclusive, --exclusive=user, --exclusive=mcs and (since 24.05) --exclusive=topo.
local WHOLE_NODES = { [0] = true, [2] = true, [3] = true, [4] = true }

-- Each read of a field costs slurmctld a search by its name: what is looked at in several places.
local function looked_at(job, comment)
  local own = { comment = comment, reservation = job.reservation, script = job.script }
  for _, field in ipairs(DECISIVE) do own[field] = job[field] end
  if not own.account then own.default_account = job.default_account end
  if own.script then
    -- Only batch jobs carry their environment; asking others for it fills slurmctld's log.
    local environment = job.environment
    own.environment = environment
    own.workload, own.mode = environment["BERTH_WORKLOAD"], environment["BERTH_MODE"]
    own.quiet = environment["BERTH_QUIET"]
  end
  return own
end

-- Slurm looks names up among the host's users, which takes longer than all else that is read.
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

local function describe(job, partitions, own)
  local script, uid = own.script, job.user_id
  local details = {
    uid = uid,
    user = user_of(job, uid),
    account = text_of(own.account),
    default_account = text_of(own.default_account),
    qos = text_of(own.qos),
    reservation = text_of(own.reservation),
    name = text_of(job.name),
    queue = text_of(own.partition),
    queues = partitions,
    comment = sendable_comment(own.comment),
    nodes = count_of(job.min_nodes, slurm.NO_VAL),
    max_nodes = count_of(job.max_nodes, slurm.NO_VAL),
    tasks = count_of(job.num_tasks, slurm.NO_VAL),
    cpus_per_task = count_of(job.cpus_per_task),
    tasks_per_node = count_of(job.ntasks_per_node),
    memory_mib_per_node = count_of(job.min_mem_per_node, 2 ^ 53),
    memory_mib_per_cpu = count_of(job.min_mem_per_cpu, 2 ^ 53),
    gres = first_gres(own),
    features = text_of(own.features),
    prefer = text_of(own.prefer),
    exclusive = WHOLE_NODES[job.shared] and 1 or nil,
    time_limit_min = count_of(job.time_limit, slurm.NO_VAL),
    array = text_of(own.array_inx),
    het = count_of(job.het_job_offset, slurm.NO_VAL),
    scheduler_since_s = loaded_at,
  }
  local least = count_of(job.pn_min_cpus)
  -- sbatch derives it from the tasks of a node; more than those need was asked by --mincpus.
  local derived = (details.cpus_per_task or 1) * (details.tasks_per_node or 1)
  if least and least > derived then details.min_cpus_per_node = least end
  if details.gres then
    local nodes = details.nodes or 1
    details.gpus = gpus_in_all(own, details.tasks or nodes * (details.tasks_per_node or 1))
    details.cpus_per_gpu = per_gpu(job.cpus_per_tres)
    details.memory_mib_per_gpu = per_gpu(job.mem_per_tres)
  end
  if script then
    -- Whether it may run twice matters only where its memory might be made less.
    if details.memory_mib_per_node then details.requeue = count_of(job.requeue, 2) end
    local words = arguments(job)
    if words ~= false then -- a script without its arguments would be another program
      details.script = text_of(script, MAX_SCRIPT_BYTES)
      details.arguments = words
    end
    -- The daemon must know that there is a text which it does not see.
    if not details.script then details.script_unread = 1 end
    details.workload, details.mode = text_of(own.workload), text_of(own.mode)
  end
  -- Later components of a batch het job have no script either, but are no less batch.
  local component = details.het and details.het > 0
  details.kind = (script or component) and "batch" or "interactive"
  local pinned = {}
  for field, name in pairs(PINS) do
    if written(job[field]) then pinned[#pinned + 1] = name end
  end
  if written(own.reservation) then pinned[#pinned + 1] = "reservation" end
  if written(own.qos) then pinned[#pinned + 1] = "qos" end
  if keeps_shape(job, details) then pinned[#pinned + 1] = "shape" end
  if wants_special_nodes(job) then pinned[#pinned + 1] = "nodelist" end
  if #pinned > 0 then details.pinned = pinned end
  return details
end

local function opted_out(own)
  -- What cannot be read might say "off".
  if own.mode == "off" or written(own.mode) and not text_of(own.mode)
    or written(own.workload) and not text_of(own.workload) then
    return true
  end
  local comment = own.comment
  for word in (type(comment) == "string" and comment or ""):gmatch("[^%s,;]+") do
    if word == "berth:off" then return true end
  end
  return false
end

---------------------------------------------------------------------------------------------------
-- What Berth does not know how to carry to another place: read only where a job is to be moved.

-- `alone`: no matter on one node; `newer`: not shown by every version. Numbers are set from 1 on; bits are of `bitflags`.
local UNTRANSLATED = {
  { "batch_features", "--batch" }, { "burst_buffer", "--bb" }, { "clusters", "--clusters" },
  { "network", "--network" }, { "power_flags", "--power" }, { "reboot", "--reboot" },
  { "contiguous", "--contiguous", alone = true }, { "req_switch", "--switches", alone = true },
  { "req_context", "the SELinux context" }, { "selinux_context", "the SELinux context" },
  { "ntasks_per_board", "tasks by board" },
  { "segment_size", "--segment", alone = true, newer = true },
  { "core_spec", "--core-spec", newer = true }, { "thread_spec", "--thread-spec", newer = true },
}
local BOUND_TO_SOCKETS = 0x10 -- --gres-flags=enforce-binding
local SPREAD = 0x100 -- --spread-job: over all nodes of the partition
local UNKNOWN_HERE = {} -- numbers that this version's Lua does not show

local function is_set(value)
  if type(value) == "number" then
    return value >= 1 and value ~= 65534 and value ~= 65535 and value < 4294967293
  end
  return value == true or written(value)
end

-- Whether a job without a time limit gets less there than the least time that the user asked for.
local function below_least_time(job, edits, details, partitions)
  local least = count_of(job.time_min, slurm.NO_VAL)
  if not least or least == 0 or details.time_limit_min or edits.time_limit_min then return false end
  for name in tostring(edits.queue or ""):gmatch("[^,]+") do
    local part = partitions[name] or {}
    local given = count_of(part.default_time, slurm.NO_VAL) or count_of(part.max_time, slurm.NO_VAL)
    if not given or given < least then return true end
  end
  return false
end

-- Whether it goes to a partition with OverSubscribe=EXCLUSIVE.
local function of_whole_nodes(edits, partitions)
  for name in tostring(edits.queue or ""):gmatch("[^,]+") do
    if (partitions[name] or {}).max_share == 0 then return true end
  end
  return false
end

-- Whether a command of the script would see the number of tasks that is written for it (its own
-- variables, or an inner job's), or names its tasks by node, which another number would cut.
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

-- Why this job must not be moved as the edits say: the option's name, or nil.
local function untranslated(job, edits, details, partitions, own)
  for _, field in ipairs(DECISIVE) do
    local value = own[field]
    if written(value) and not text_of(value) then
      return "a " .. field .. " that is too long or not in UTF-8"
    end
  end
  local nodes = edits.nodes or details.nodes or 1
  local tasks = edits.tasks or details.tasks or 1
  for _, rule in ipairs(UNTRANSLATED) do
    local field, option = rule[1], rule[2]
    if not UNKNOWN_HERE[field] and not (rule.alone and nodes == 1) then
      local value = job[field]
      if rule.newer and value == nil then UNKNOWN_HERE[field] = true end
      if is_set(value) then return option end
    end
  end
  local flags = job.bitflags
  local function flagged(bit) return type(flags) == "number" and flags % (2 * bit) >= bit end
  if flagged(BOUND_TO_SOCKETS) and (edits.gres or details.gres) then
    return "--gres-flags=enforce-binding"
  end
  if flagged(SPREAD) and not (tasks == 1 and edits.tasks) then return "--spread-job" end
  if edits.queue and not details.tasks and details.kind == "batch" and not own.whole_nodes
    and of_whole_nodes(edits, partitions)
    and (details.min_cpus_per_node or reads_tasks(own.script)) then
    -- Their number must be written there: a script would read it, or mpirun have started one on each core.
    return details.min_cpus_per_node and "--mincpus without a number of tasks"
      or "a script without a number of tasks that reads it, or submits jobs"
  end
  if edits.gres and not details.gres then
    -- Seen with 22.05: beside GPUs only the tasks' own cores are given.
    if details.min_cpus_per_node then return "--mincpus" end
    -- Seen with 26.05: such a job never starts there.
    if (count_of(job.ntasks_per_socket) or 0) >= 1 then return "--ntasks-per-socket" end
    -- they would hold for the GPUs that are added
    if written(job.cpus_per_tres) then return "--cpus-per-gpu" end
    if written(job.mem_per_tres) then return "--mem-per-gpu" end
    -- A Slurm that shows segments (26.05; 24.11 does not) has no GPUs for tasks that share a core.
    if (count_of(job.ntasks_per_core) or 0) > 1 and job.segment_size ~= nil then
      return "--ntasks-per-core"
    end
  end
  if details.memory_mib_per_cpu == 0 then
    return "--mem-per-cpu=0 (all memory of a node)" -- another node's is more than its queue may allow
  end
  if details.memory_mib_per_cpu and of_whole_nodes(edits, partitions) then
    return "--mem-per-cpu" -- it would hold for every core of the node
  end
  if below_least_time(job, edits, details, partitions) then return "--time-min" end
  local per_socket = count_of(job.ntasks_per_socket)
  -- Slurm wants as many cores of a socket as so many tasks take, whether or not there are so many.
  if per_socket and per_socket >= 1 and (tasks > per_socket or edits.cpus_per_task) then
    return "--ntasks-per-socket"
  end
  return unseen_choice(own)
end

---------------------------------------------------------------------------------------------------
-- The answer: checked as a whole, then carried out as a whole.

local function whole(value, most)
  return type(value) == "number" and value >= 1 and value <= most and value % 1 == 0
end

local function plain(value, pattern)
  return type(value) == "string" and #value <= 256 and value:find(pattern) ~= nil
end

local CHECKS = {
  queue = function(value)
    return plain(value, "^[%w_.%-][%w_.,%-]*$") and not value:find(",,") and not value:find(",$")
  end,
  features = function(value) return plain(value, "^[%w_.:=&|!%[%]()*,%-]+$") end,
  gres = function(value) return plain(value, "^[%w_.:,/+%-]+$") end,
  nodes = function(value) return whole(value, 100000) end,
  tasks = function(value) return whole(value, 10000000) end,
  cpus_per_task = function(value) return whole(value, 65000) end,
  memory_mib_per_node = function(value) return whole(value, 2 ^ 40) end,
  memory_mib_per_cpu = function(value) return whole(value, 2 ^ 40) end,
  time_limit_min = function(value) return whole(value, 5256000) end,
}

local LAYOUT = { "nodes", "tasks", "cpus_per_task" }
local SHAPE = { "nodes", "tasks", "cpus_per_task", "memory_mib_per_node", "memory_mib_per_cpu" }

-- True where the edit only adds a type to GPUs that were asked for without one.
local function adds_type(edits, details)
  return edits.gres ~= nil and details.gres ~= nil and names_no_type(details.gres)
    and type(edits.gres) == "string" and edits.gres:find("^gpu:[%w_.+%-]*%a[%w_.+%-]*:%d+$") ~= nil
end

-- Why a job with these edits cannot go to a partition, or nil.
local function over_limits(part, name, edits, details, limit)
  if not part then return "partition " .. name .. " is not open to this submitter" end
  -- What is over a partition's limits would be refused or never start.
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

-- True where nothing changes but the memory of a node, which gets less. The job stays where it is.
local function only_fits_memory(edits, details)
  local asked, wanted = details.memory_mib_per_node, edits.memory_mib_per_node
  return wanted ~= nil and next(edits) == "memory_mib_per_node"
    and next(edits, "memory_mib_per_node") == nil
    and asked ~= nil and whole(wanted, asked - 1)
end

-- Why these edits must not be made, or nil.
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
    -- srun and salloc start their steps with the shape they were given, not with the job's; memory
    -- that was not asked for is the job's.
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
  -- Several are a list: Slurm starts the job in the one where it can first.
  for name in edits.queue:gmatch("[^,]+") do
    local problem = over_limits(partitions[name], name, edits, details, limit)
    if problem then return problem end
  end
  return nil
end

-- Where the job goes that is left alone; an empty table where that is not known.
local function own_partition(own, part_list)
  if written(own.partition) then return part_list[own.partition] or {} end
  for _, part in pairs(part_list) do
    if (part.flags or 0) % 2 == 1 then return part end -- the default one
  end
  return {}
end

-- The minutes that a partition gives who asks for no time limit; nil: not known, or without end.
local function limit_by_default(part)
  return count_of(part.default_time, slurm.NO_VAL) or count_of(part.max_time, slurm.NO_VAL)
end

-- The time limit that a job without one is given, so that it has as long as where it was, or as long
-- as may be there; nil: it has by itself.
local function kept_limit(own, edits, details, partitions)
  if details.time_limit_min or edits.time_limit_min or not own.limit_min then return nil end
  local kept, shorter = own.limit_min, false
  for name in tostring(edits.queue or ""):gmatch("[^,]+") do
    local part = partitions[name] or {}
    local given = limit_by_default(part)
    shorter = shorter or given ~= nil and given < own.limit_min
    kept = math.min(kept, count_of(part.max_time, slurm.NO_VAL) or kept)
  end
  return shorter and kept or nil
end

-- The steps of the edit, in order: { table, key, value }. Memory stands last: its unset value
-- cannot be put back from Lua.
local function plan(job, edits, details, own, partitions)
  local steps = {}
  local function set(field, value)
    if value ~= nil then steps[#steps + 1] = { job, field, value } end
  end
  set("partition", edits.queue)
  set("features", edits.features)
  if edits.gres and details.gres then
    -- The words and the count stay as they are, wherever they stand. Without a count Slurm would
    -- read the type "1g.5gb" as one.
    local field, text = untyped_field(own)
    if not field then error("the GPUs are asked for in several ways") end
    local typed = text:gsub("gpu", (edits.gres:gsub(":%d+$", "")), 1)
    set(field, text:find("%d$") and typed or typed .. ":1")
    steps[#steps].seen = true
  else
    set("gres", edits.gres)
  end
  set("min_nodes", edits.nodes)
  set("max_nodes", edits.nodes)
  set("time_limit", edits.time_limit_min or kept_limit(own, edits, details, partitions))
  local environment = own.environment or {}
  -- srun inside the job takes its defaults from these, which sbatch has set for the old shape.
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
    local per_task = text_of(own.tres_per_task)
    if per_task then set("tres_per_task", (per_task:gsub(CPUS_OF_TASK, "cpu=" .. cpus))) end
    -- sbatch derives these from the tasks it was given; left alone they would contradict the edit.
    set("min_cpus", tasks * cpus)
    if not details.min_cpus_per_node or details.min_cpus_per_node < cpus then
      set("pn_min_cpus", cpus)
    end
    if details.tasks_per_node and tasks_per_node < details.tasks_per_node then
      set("ntasks_per_node", tasks_per_node)
    end
  elseif edits.queue and not named and details.kind == "batch" and not own.whole_nodes
    and not details.min_cpus_per_node and not reads_tasks(own.script) then
    -- Who names no tasks has one on each node. In a partition of whole nodes, or with other cores by
    -- default, srun and mpirun would start as many as fit.
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

-- What the edit replaces, so that `berth slurm putback` can restore it: `was=partition:auto;gres:-;...`.
-- `-` is unset; what is no plain character of a value is written %XX.
local function was(job, steps, details)
  local found = {}
  local function note(key, value)
    local text = "-"
    if type(value) == "number" then
      if value < 4294967293 and value ~= 65534 then text = string.format("%.0f", value) end
    elseif written(value) then
      text = value:gsub("[^%w_.]", function(c) return string.format("%%%02X", c:byte()) end)
    end
    found[#found + 1] = key .. ":" .. text
  end
  for _, step in ipairs(steps) do
    if step[1] == job then
      step.before = job[step[2]]
      note(step[2], step.before)
    end
  end
  note("memory_mib_per_node", details.memory_mib_per_node)
  note("memory_mib_per_cpu", details.memory_mib_per_cpu)
  return " was=" .. table.concat(found, ";")
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
-- What the user is told. `slurm.log_user` speaks before sbatch prints the id, to a terminal or not;
-- where Slurm then refuses the job sbatch writes "error:" before it, hence "note:". cli_filter.lua does it better: it says by a word
-- in the comment that it is there, and prints what it finds in the stamp once the job is accepted.

local CLIENT_WORD = "^(.-)%s?berth%-client:(%l+)$"

-- What the client filter says (`tty`: a person is looking; else: say nothing; nil: it is not there)
-- and the comment without its word, which is taken off the job.
local function client_of(job)
  local comment = job.comment
  if type(comment) ~= "string" then return nil, nil end
  local own_words, says = comment:match(CLIENT_WORD)
  if not says then return nil, comment end
  job.comment = own_words
  return says, own_words ~= "" and own_words or nil
end

local function tell(audience, job, text)
  if not text_of(text, MAX_REPLY_BYTES) then return end
  text = one_line(text:gsub("^[Bb]erth: *", ""), MAX_MESSAGE_BYTES - #"berth: note: ")
  if audience.client == "tty" then
    local said = ("berth: " .. text):gsub("[^%w_.]", function(c) return string.format("%%%03o", c:byte()) end)
    local before = job.admin_comment
    if #(before or "") + #said > 4 * MAX_STAMP_BYTES then return end
    job.admin_comment = (before and before .. " " or "") .. "said=" .. said
  elseif not audience.client then
    local quiet = audience.quiet
    if quiet == nil and job.script then quiet = job.environment["BERTH_QUIET"] end
    if not written(quiet) or quiet == "0" then slurm.log_user("berth: note: %s", text) end
  end
end

---------------------------------------------------------------------------------------------------
-- The site's own check is asked about the job as it would be. It gets a view: reads show the edit,
-- writes are held back, so that nothing needs to be put back where it refuses.

local OTHER_MEMORY = { min_mem_per_node = "min_mem_per_cpu", min_mem_per_cpu = "min_mem_per_node" }
local TABLES_OF_JOB = { environment = true, spank_job_env = true }

-- A view of `target`, and a function that shows a value in it. What is written to the view goes to
-- `writes` as steps.
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

-- The job with these steps done, as a view; `writes` gets what the check adds to them.
local function edited_view(job, own, steps, writes)
  local view, show, views = view_of(job, writes)
  local environment, show_variable
  if own.environment then
    environment, show_variable = view_of(own.environment, writes)
    views.environment = environment
  end
  for _, step in ipairs(steps) do
    if step[1] == job then
      show(step[2], step[3])
    elseif step[1] == own.environment then -- interactive jobs have none
      show_variable(step[2], step[3])
    end
  end
  return view
end

-- Run a function that may never end: true and its value, or false and why it has none. One that
-- waits inside a C function (`os.execute`, a slow pattern) cannot be stopped. (Not in a coroutine:
-- slurmctld answers reads of a job on its main stack only.)
local function run_bounded(call, ...)
  if type(debug) ~= "table" or not debug.sethook then return pcall(call, ...) end
  local hook, mask, count = debug.gethook()
  local ours = debug.getinfo(1, "f").func
  local function stop()
    if debug.getinfo(2, "f").func == ours then -- it is over
      debug.sethook()
      return
    end
    debug.sethook(stop, "", 1) -- out of every pcall of its own, too
    error("it did not end", 0)
  end
  debug.sethook(stop, "", MAX_CHECK_INSTRUCTIONS)
  local fine, value = pcall(call, ...)
  if hook then debug.sethook(hook, mask, count) else debug.sethook() end
  return fine, value
end

-- Ask the site's check about the edited job. True and what it wrote and told, where it accepts.
local function accepted_by(check, job, own, steps, part_list, uid)
  local writes, told = {}, {}
  local view = edited_view(job, own, steps, writes)
  local log_user, user_msg = slurm.log_user, slurm.user_msg
  slurm.log_user = function(...) told[#told + 1] = string.format(...) end
  slurm.user_msg = function(text) told[#told + 1] = tostring(text) end
  local fine, code = run_bounded(check, view, part_list, uid)
  slurm.log_user, slurm.user_msg = log_user, user_msg
  if fine and code == slurm.SUCCESS then return true, writes, told end
  if not fine then log("check", "the site's check failed for an edited job: " .. tostring(code)) end
  return false
end

---------------------------------------------------------------------------------------------------

-- What stays on a job that was to be moved and is not: the same decision, with our reason.
local function stamp_kept(job, text, code)
  if not text_of(text, MAX_STAMP_BYTES) then return end
  text = text:gsub(" action=%S+", " action=keep", 1):gsub(" code=%S+", " code=" .. code, 1)
  stamp(job, text)
end

local function ask(details)
  local fine, line = pcall(json.encode, {
    v = PROTOCOL, op = "decide", scheduler = "slurm", job = details, breaker = breaker.report(),
  })
  if not fine or #line >= MAX_REQUEST_BYTES then return nil end -- the job's doing, not the daemon's
  local text, problem = exchange(line .. "\n")
  local reply
  if text then reply, problem = parse(text) end
  if reply then breaker.succeeded() else breaker.failed(problem) end
  return reply
end

-- Make the edit of a reply. True, and whether the site's check has accepted the job; or nil and why
-- it was not made.
local function make_edit(job, reply, details, partitions, own, site)
  local problem = objection(reply.edits, details, partitions)
  if not problem and not text_of(reply.stamp, MAX_STAMP_BYTES) then
    problem = "no stamp would explain it"
  end
  if problem then return nil, problem end
  local steps = plan(job, reply.edits, details, own, partitions)
  -- First of all: no job is changed without a stamp that says so.
  local text = stamped(job, reply.stamp, was(job, steps, details))
  table.insert(steps, 1, { job, "admin_comment", text })
  local told = {}
  if site.check then
    local accepts, writes
    accepts, writes, told = accepted_by(site.check, job, own, steps, site.part_list, site.uid)
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
  for _, line in ipairs(told) do slurm.log_user("%s", line) end
  return true
end

-- Whether there was an answer, and whether the site's check has accepted the job as it now is.
local function consider(job, comment, audience, site)
  if not usable then return false end
  read_config()
  if killed() then return false end
  if not breaker.allows() then
    breaker.passed_by()
    return false
  end
  local own = looked_at(job, comment)
  audience.quiet = own.quiet or false
  if opted_out(own) then return true end
  local names, partitions = usable_partitions(job, site.part_list, own)
  if #names == 0 then return true end
  local details = describe(job, names, own)
  local reply = ask(details)
  if not reply then return false end
  audience.text = reply.message
  if reply.action ~= "edit" or type(reply.edits) ~= "table" then
    stamp(job, reply.stamp)
    return true
  end
  local own_part = own_partition(own, site.part_list)
  own.whole_nodes = details.exclusive or own_part.max_share == 0
  own.limit_min = limit_by_default(own_part)
  local option = not only_fits_memory(reply.edits, details)
    and untranslated(job, reply.edits, details, partitions, own)
  if option then
    stamp_kept(job, reply.stamp, "untranslated")
    audience.text = config.messages == "all"
      and "the job stays as it is: Berth cannot carry " .. option .. " to another place" or nil
    return true
  end
  local done, problem, code = make_edit(job, reply, details, partitions, own, site)
  if done then return true, site.check ~= nil end
  audience.text = nil
  if code then
    stamp_kept(job, reply.stamp, code)
    return true
  end
  log("refused", "an answer was not carried out: " .. tostring(problem))
  return false
end

-- Berth's decision for a job of a site with rules of its own. `check(job_desc, part_list, uid)`, as a
-- slurm_job_submit: asked about the job as Berth would change it; unless it returns slurm.SUCCESS the
-- job goes on as its user wrote it, and check is asked about that as if Berth were not there.
function berth_submit(job_desc, part_list, uid, check)
  local audience, comment, accepted = {}, nil, false
  pcall(function() audience.client, comment = client_of(job_desc) end)
  local site = { check = check, part_list = part_list, uid = uid }
  local fine, answered, agreed = pcall(consider, job_desc, comment, audience, site)
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

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

pcall(function()
  if not usable then
    log("library", "lua-socket or lua-cjson is missing: jobs go on unchanged")
  end
end)

return slurm.SUCCESS
