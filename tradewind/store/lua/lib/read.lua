-- Fields of a record, the first one always there: epoch, priority and revision are not stored where
-- they are 1, as most are; a queue is missing only where data was lost. `v[1]` is false where there
-- is no record.
local DEFAULTS = { ep = '1', pr = '1', rv = '1', q = 'default' }

local function read(record, ...)
  local v = redis.call('HMGET', record, ...)
  for i = 2, v[1] and #v or 1 do
    v[i] = v[i] or DEFAULTS[select(i, ...)]
  end
  return v
end
