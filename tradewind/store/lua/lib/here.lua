-- Touch before write: true if this node serves every key of the list, absent ones included.
-- A key that was not declared and has left with its slot answers with an error; a write to it
-- would fail half-way, after earlier writes stayed.
local function here(keys)
  for i = 1, #keys do
    local answer = redis.pcall('EXISTS', keys[i])
    if type(answer) == 'table' and answer.err then
      if not string.find(answer.err, 'non local key', 1, true) then
        error(answer)
      end
      return false
    end
  end
  return true
end
