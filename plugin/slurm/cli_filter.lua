-- Berth's client filter for Slurm: what sbatch, srun and salloc keep from slurmctld's Lua, and the
-- one line for the user after the job is accepted.
--
-- * `--gres=none`, `--gpus-per-task=0` (since 24.11), `--deadline`, `--core-spec` and `--thread-spec`
--   are choices that job_submit.lua cannot see on the command line. A job with one of them that Berth
--   might move gets the word `berth:off` in its comment.
-- * A word at the end of the comment (`berth-client:tty`, `berth-client:quiet`) tells job_submit.lua
--   that this filter is there; it takes the word off again and prints nothing itself. On a terminal
--   its sentence travels in the job's stamp and is printed here, after the id; nowhere else.
-- * Where the site turns it on (`file_digests = on` in the file below), `berth-file:PATH` in a comment
--   becomes `berth-file:sha256-...`: only here can the user's files be read.
--
-- Nothing else is looked at, and no error of ours stops a submission.
-- Install it beside slurm.conf as cli_filter.lua with CliFilterPlugins=lua (docs/slurm.md).

local AUTO = os.getenv("BERTH_AUTO_PARTITION") or "auto"
local CONFIG_PATH = os.getenv("BERTH_CLIENT_CONFIG") or "/etc/berth/client.conf"
local SAID_WITHIN_S = "0.5" -- so long a person waits at most for the line, after the job is accepted
local MAX_COMMENT_BYTES = 1000 -- Slurm takes 1024
local MAX_MOUNT_LINES = 20000
local DIGEST_WITHIN_S = "0.04" -- a file that takes longer keeps its name: nothing is matched by it
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

-- The SHA-256 of a file, by a program that is killed when the time is over; nil: not known.
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

-- The comment with the digest of the file that it names, where that is known.
local function with_digest(comment)
  local before, path, after = (" " .. comment):match("^(.*[%s,;]berth%-file:)([^%s,;]+)(.*)$")
  if not path or path:find("^sha256%-") or not digests_files() then return comment end
  local digest = digest_of(path)
  return digest and (before .. "sha256-" .. digest .. after):sub(2) or comment
end

-- Whether standard error is a terminal: a file of the file system that terminals are in. Without a
-- fork, and before the job is submitted; a console of the machine itself counts as none.
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
  local asked = os.getenv("BERTH_QUIET")
  local quiet = tonumber(given(options, "quiet"))
  return asked ~= nil and asked ~= "" and asked ~= "0" or quiet ~= nil and quiet > 0
end

-- Leave options that hold before the word for job_submit.lua is added.
local function adjust(options)
  local partition = given(options, "partition")
  if partition and partition ~= AUTO then return end
  local comment = given(options, "comment")
  if unseen(options) then
    options["comment"] = comment and comment .. " berth:off" or "berth:off"
  elseif comment then
    local fuller = with_digest(comment)
    if fuller ~= comment then options["comment"] = fuller end
  end
end

local watched = {} -- what pre_submit leaves for post_submit

local function announce(options)
  if given(options, "type") == "srun" and os.getenv("SLURM_JOB_ID") then return end -- a step, no job
  local comment = given(options, "comment")
  local looks = not wants_quiet(options) and is_watched()
  local word = looks and "berth-client:tty" or "berth-client:quiet"
  local text = comment and comment .. " " .. word or word
  if #text > MAX_COMMENT_BYTES then return end
  options["comment"] = text
  watched.looks = looks
  watched.type, watched.waits = given(options, "type"), given(options, "wait") ~= nil
  watched.elsewhere = given(options, "clusters") ~= nil -- a local job may have the same number
end

-- What job_submit.lua left to be said in the stamp of a job, or nil.
local function said_of(job_id)
  local pipe = io.popen(string.format("exec 2>/dev/null </dev/null; timeout -s KILL %s scontrol -o show job %d",
    SAID_WITHIN_S, job_id), "r")
  if not pipe then return nil end
  local text = pipe:read(65536) or ""
  pipe:close()
  local said = text:match("%ssaid=([%w_.%%]+)")
  if not said then return nil end
  said = said:gsub("%%(%d%d%d)", function(octal) return string.char(tonumber(octal, 8) % 256) end)
  return (said:gsub("%c", " "))
end

local function show(job_id)
  if not watched.looks or watched.elsewhere then return end
  watched.looks = false -- once, however many components a job has
  local said = said_of(job_id)
  if not said then return end
  if watched.type ~= "sbatch" then -- srun and salloc have told the id
    io.stderr:write(said, "\n")
    return
  end
  -- sbatch prints the id only after this function: a program waits for sbatch's end, no longer (with
  -- --wait: a moment). It must not hold sbatch's standard output, which `$(sbatch ...)` reads to its end.
  local until_told = watched.waits and "sleep 0.1" or "cat"
  local pipe = io.popen("exec >/dev/null; IFS= read -r said; " .. until_told
    .. '; printf "%s\\n" "$said" >&2', "w")
  if not pipe then return end
  pipe:write(said, "\n")
  pipe:flush()
  watched.pipe = pipe -- closed by the end of the process; collected as garbage it would be waited for
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
