-- Berth's client filter for Slurm: tells job_submit.lua what slurmctld's Lua does not see of sbatch, srun
-- and salloc, and prints one line for the user after the job is accepted.
--
-- * `--gres=none`, `--gpus-per-task=0` (since 24.11), `--deadline`, `--core-spec` and `--thread-spec`
--   are choices that job_submit.lua cannot see on the command line. A job with one of them that Berth
--   might move gets the word `berth:off` in its comment.
-- * A word at the end of the comment (`berth-client:tty`, `berth-client:quiet`) tells job_submit.lua
--   that this filter is installed; job_submit.lua removes the word and prints nothing itself. On a
--   terminal its sentence is passed on in the job's AdminComment and printed here, with the job's id.
-- * The same word carries BERTH_MODE and BERTH_WORKLOAD of the user's environment, which `--export=NONE`
--   keeps from the job, as do srun and salloc. A file `~/.config/berth/off` counts as BERTH_MODE=off.
-- * Where the site turns it on (`file_digests = on` in the file below), `berth-file:PATH` in a comment
--   becomes `berth-file:sha256-...`: only here can the user's files be read.
--
-- Nothing else is read, and no error of this filter stops a submission.
-- Install it beside slurm.conf as cli_filter.lua with CliFilterPlugins=lua (docs/slurm.md).

local AUTO = os.getenv("BERTH_AUTO_PARTITION") or "auto"
local CONFIG_PATH = os.getenv("BERTH_CLIENT_CONFIG") or "/etc/berth/client.conf"
local MESSAGE_WITHIN_S = "0.5" -- the longest wait for the line, after the job is accepted
local MAX_COMMENT_BYTES = 1024 -- what Slurm takes
local MAX_MOUNT_LINES = 20000
local DIGEST_WITHIN_S = "0.04" -- a file that takes longer keeps its name, by which no job is matched
local UNSET = { [""] = true, ["unset"] = true, ["Unknown"] = true, ["N/A"] = true }

local function option_of(options, name)
  local fine, value = pcall(function() return options[name] end)
  return fine and type(value) == "string" and not UNSET[value] and value or nil
end

local function hidden_choice(options)
  local gres = option_of(options, "gres")
  return gres and gres:lower():gsub("^gres[:/]", "") == "none"
    or (option_of(options, "gpus-per-task") or ""):find("^[%w_:]*%f[%w]0$")
    or option_of(options, "deadline") or option_of(options, "core-spec") or option_of(options, "thread-spec")
end

local function digests_files()
  local file = io.open(CONFIG_PATH, "r")
  if not file then return false end
  local text = file:read(65536) or ""
  file:close()
  for line in text:gmatch("[^\n]+") do
    if line:find("^%s*file_digests%s*=%s*on%s*$") then return true end
  end
  return false
end

-- Return the SHA-256 of a file, from a program that is killed when its time is over; nil: unknown.
local function digest_of(path)
  local quoted = "'" .. path:gsub("'", "'\\''") .. "'"
  local pipe = io.popen("exec 2>/dev/null; test -f " .. quoted .. " && timeout -s KILL "
    .. DIGEST_WITHIN_S .. " sha256sum < " .. quoted, "r")
  if not pipe then return nil end
  local line = pipe:read("*l")
  pipe:close()
  local digest = (line or ""):match("^(%x+)%s")
  return digest and #digest == 64 and digest:lower() or nil
end

-- Return the comment with the file name replaced by the file's digest, where the digest is known.
local function with_digest(comment)
  local before, path, after = (" " .. comment):match("^(.*[%s,;]berth%-file:)([^%s,;]+)(.*)$")
  if not path or path:find("^sha256%-") or not digests_files() then return comment end
  local digest = digest_of(path)
  return digest and (before .. "sha256-" .. digest .. after):sub(2) or comment
end

-- Return whether standard error is a terminal, by its file system (devpts), which needs no fork. The
-- machine's own console does not count.
local function is_watched()
  local file = io.open("/proc/self/fdinfo/2", "r")
  if not file then return false end
  local mount = (file:read(4096) or ""):match("mnt_id:%s*(%d+)")
  file:close()
  file = mount and io.open("/proc/self/mountinfo", "r")
  if not file then return false end
  local watched = false
  for _ = 1, MAX_MOUNT_LINES do
    local line = file:read("*l")
    if not line then break end
    if line:find("^" .. mount .. " ") then
      watched = line:find(" - devpts ", 1, true) ~= nil
      break
    end
  end
  file:close()
  return watched
end

local function wants_quiet(options)
  local variable = os.getenv("BERTH_QUIET")
  local quiet = tonumber(option_of(options, "quiet"))
  return variable ~= nil and variable ~= "" and variable ~= "0" or quiet ~= nil and quiet > 0
end

-- Change the options: opt out of a placement that would break a hidden choice, and digest a file.
local function adjust(options)
  local partition = option_of(options, "partition")
  if partition and partition ~= AUTO then return end
  local comment = option_of(options, "comment")
  if hidden_choice(options) then
    options["comment"] = comment and comment .. " berth:off" or "berth:off"
  elseif comment then
    local fuller = with_digest(comment)
    if fuller ~= comment then options["comment"] = fuller end
  end
end

-- Return the user's choices for all jobs, as job_submit.lua reads them after the client's word.
local function standing_choices()
  local choices = ""
  local function add(key, value)
    if value and value ~= "" then
      value = value:gsub("[^%w_.]", function(c) return string.format("%%%03o", c:byte()) end)
      choices = choices .. ";" .. key .. "=" .. value
    end
  end
  local file = io.open((os.getenv("HOME") or "") .. "/.config/berth/off", "r")
  if file then file:close() end
  add("mode", file and "off" or os.getenv("BERTH_MODE"))
  add("workload", os.getenv("BERTH_WORKLOAD"))
  return choices
end

local submission = {} -- values that pre_submit passes to post_submit

local function announce(options)
  if option_of(options, "type") == "srun" and os.getenv("SLURM_JOB_ID") then return end -- a job step, not a job
  local comment = option_of(options, "comment")
  local shows_line = not wants_quiet(options) and is_watched()
  local word = "berth-client:" .. (shows_line and "tty" or "quiet") .. standing_choices()
  local text = comment and comment .. " " .. word or word
  if #text > MAX_COMMENT_BYTES then return end
  options["comment"] = text
  submission.shows_line = shows_line
  submission.elsewhere = option_of(options, "clusters") ~= nil -- a local job may have the same number
end

-- Return the line for the user that job_submit.lua wrote to AdminComment; nil: none.
local function message_of(job_id)
  local pipe = io.popen(string.format("exec 2>/dev/null </dev/null; timeout -s KILL %s scontrol -o show job %d",
    MESSAGE_WITHIN_S, job_id), "r")
  if not pipe then return nil end
  local text = pipe:read(65536) or ""
  pipe:close()
  local message = text:match("%ssaid=([%w_.%%]+)")
  if not message then return nil end
  message = message:gsub("%%(%d%d%d)", function(octal) return string.char(tonumber(octal, 8) % 256) end)
  return (message:gsub("%c", " "))
end

local function show(job_id)
  if not submission.shows_line or submission.elsewhere then return end
  submission.shows_line = false -- once, however many components a job has
  local message = message_of(job_id)
  if message then io.stderr:write("berth: job ", job_id, ": ", message, "\n") end
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  pcall(adjust, options)
  pcall(announce, options)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  pcall(show, job_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
