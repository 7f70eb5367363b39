-- Berth's client filter for Slurm, optional: what sbatch, srun and salloc keep from slurmctld's Lua.
--
-- `--gres=none`, `--gpus-per-task=0` (since 24.11), `--deadline`, `--core-spec` and `--thread-spec`
-- are choices that job_submit.lua cannot see on the command line. A job with one of them that Berth might move gets the word
-- `berth:off` in its comment. Where the site turns it on (`file_digests = on` in the file below),
-- `berth-file:PATH` in a comment becomes `berth-file:sha256-...`: only here can the user's files be
-- read. Nothing else is looked at, and no error of ours stops a submission.
-- Install it beside slurm.conf as cli_filter.lua with CliFilterPlugins=lua (docs/slurm.md).

local AUTO = os.getenv("BERTH_AUTO_PARTITION") or "auto"
local CONFIG_PATH = os.getenv("BERTH_CLIENT_CONFIG") or "/etc/berth/client.conf"
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

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  pcall(function()
    local partition = given(options, "partition")
    if partition and partition ~= AUTO then return end
    local comment = given(options, "comment")
    if unseen(options) then
      options["comment"] = comment and comment .. " berth:off" or "berth:off"
    elseif comment then
      local fuller = with_digest(comment)
      if fuller ~= comment then options["comment"] = fuller end
    end
  end)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
