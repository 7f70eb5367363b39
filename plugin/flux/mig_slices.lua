-- Gives the tasks of a Flux job their MIG slices by UUID: a plugin of Flux's job shell.
--
-- Flux counts slices as plain GPUs (0, 1, 2, ...) and CUDA_VISIBLE_DEVICES gets these numbers; but
-- CUDA knows slices by UUID only. /etc/berth/mig-slices on each such node holds the UUIDs, one per
-- line, in the order of Flux's numbers. On nodes without that file nothing happens. A number without
-- a line hides all devices, so that no job uses another job's GPU.
-- Install it in the lua.d folder of Flux's shell (docs/flux.md).

local PATH = "/etc/berth/mig-slices"
local VARIABLE = "CUDA_VISIBLE_DEVICES"
local NO_DEVICE = "-1"

-- Return the UUIDs by Flux's number; nil where there is no such file.
local function slices()
  local file = io.open(PATH, "r")
  if not file then return nil end
  local found, number = {}, 0
  for line in file:lines() do
    local uuid = line:match("^%s*([^%s#]+)")
    if uuid then
      found[tostring(number)] = uuid
      number = number + 1
    end
  end
  file:close()
  return found
end

local function by_uuid(numbers, known)
  local uuids = {}
  for number in numbers:gmatch("[^,]+") do
    local uuid = known[number]
    if not uuid then return nil, number end
    uuids[#uuids + 1] = uuid
  end
  return table.concat(uuids, ",")
end

plugin.register {
  name = "berth-mig-slices",
  handlers = {
    {
      topic = "task.init",
      fn = function()
        local numbers = task.getenv(VARIABLE)
        if not numbers or numbers == "" or numbers == NO_DEVICE then return end
        local known = slices()
        if not known then return end
        local uuids, missing = by_uuid(numbers, known)
        if not uuids then
          shell.log_error(PATH .. " has no slice number " .. missing .. ": no device is given")
        end
        task.setenv(VARIABLE, uuids or NO_DEVICE)
      end,
    },
  },
}
