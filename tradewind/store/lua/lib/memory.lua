-- What is remembered of imports of a task: "in EPOCH" (the last that came), "no EPOCH" (this one
-- and lower ones may not come), or both. Returns the two epochs, -1 for none.
local function remembered(memory)
  local text = redis.call('GET', memory) or ''
  local came, refused = string.match(text, 'in (%d+)'), string.match(text, 'no (%d+)')
  return tonumber(came or -1), tonumber(refused or -1)
end
