-- This server's clock: the only one that decides anything.
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Numbers above 2^31 must not be printed with an exponent. Most stand for many tasks of a call.
local texts = {}

local function int(n)
  local text = texts[n]
  if not text then
    text = string.format('%.0f', n)
    texts[n] = text
  end
  return text
end
