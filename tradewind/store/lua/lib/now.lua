-- This server's clock: the only one that decides anything.
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Numbers above 2^31 must not be printed with an exponent.
local function int(n)
  return string.format('%.0f', n)
end
