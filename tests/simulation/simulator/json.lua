-- JSON as lua-cjson reads and writes it, as far as the filter needs it.
local json = {}

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escaped(c) return ESCAPES[c] or string.format("\\u%04x", c:byte()) end

local encode

local function encode_table(value)
  local parts = {}
  if value[1] ~= nil then
    for index = 1, #value do parts[index] = encode(value[index]) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key, one in pairs(value) do
    parts[#parts + 1] = '"' .. key:gsub('[%c"\\]', escaped) .. '":' .. encode(one)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

function encode(value)
  local kind = type(value)
  if kind == "string" then return '"' .. value:gsub('[%c"\\]', escaped) .. '"' end
  if kind == "number" then return string.format("%.14g", value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "table" then return encode_table(value) end
  error("Cannot serialise " .. kind)
end
json.encode = encode

local decode_value
local BACK = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ["/"] = "/", ["\\"] = "\\", ['"'] = '"' }

local function decode_string(text, at)
  local parts = {}
  while true do
    local stop = text:find('["\\]', at)
    if not stop then error("unfinished string") end
    parts[#parts + 1] = text:sub(at, stop - 1)
    if text:byte(stop) == 34 then return table.concat(parts), stop + 1 end
    local c = text:sub(stop + 1, stop + 1)
    if c == "u" then
      local code = tonumber(text:match("^%x%x%x%x", stop + 2), 16)
      if not code then error("bad escape") end
      parts[#parts + 1] = code < 128 and string.char(code) or "?"
      at = stop + 6
    else
      parts[#parts + 1] = BACK[c] or error("bad escape")
      at = stop + 2
    end
  end
end

local function skip(text, at) return text:find("[^ \t\r\n]", at) or #text + 1 end

local function decode_table(text, at)
  local found = {}
  at = skip(text, at)
  if text:sub(at, at) == "}" then return found, at + 1 end
  while true do
    if text:byte(at) ~= 34 then error("no key") end
    local key, value
    key, at = decode_string(text, at + 1)
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then error("no colon") end
    value, at = decode_value(text, skip(text, at + 1))
    found[key] = value
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "}" then return found, at + 1 end
    if c ~= "," then error("no comma") end
    at = skip(text, at + 1)
  end
end

local function decode_list(text, at)
  local found = {}
  at = skip(text, at)
  if text:sub(at, at) == "]" then return found, at + 1 end
  while true do
    found[#found + 1], at = decode_value(text, at)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "]" then return found, at + 1 end
    if c ~= "," then error("no comma") end
    at = skip(text, at + 1)
  end
end

local WORDS = { ["true"] = true, ["false"] = false }

function decode_value(text, at)
  local c = text:sub(at, at)
  if c == '"' then return decode_string(text, at + 1) end
  if c == "{" then return decode_table(text, at + 1) end
  if c == "[" then return decode_list(text, at + 1) end
  local word = text:match("^%a+", at)
  if word == "null" then return nil, at + 4 end
  if word then
    if WORDS[word] == nil then error("unknown word") end
    return WORDS[word], at + #word
  end
  local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  if not number then error("nothing") end
  return tonumber(number), at + #number
end

function json.decode(text)
  local value, at = decode_value(text, skip(text, 1))
  if skip(text, at) <= #text then error("more than one value") end
  return value
end

return json
