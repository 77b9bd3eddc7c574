-- Touch before write: true if this node serves every key of the list, absent ones included.
-- A key that was not declared and has left with its slot answers with an error; a write to it
-- would fail half-way, after earlier writes stayed.
local function has_left(answer)
  if type(answer) ~= 'table' or not answer.err then
    return false
  elseif not string.find(answer.err, 'non local key', 1, true) then
    error(answer)
  end
  return true
end

local function here(keys)
  for i = 1, #keys do
    if has_left(redis.pcall('EXISTS', keys[i])) then
      return false
    end
  end
  return true
end
