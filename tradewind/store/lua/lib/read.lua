-- Fields of a record, the first one always there: epoch, priority and revision are not stored where
-- they are 1, as most are. `v[1]` is false where there is no record.
local ONE = { ep = true, pr = true, rv = true }

local function read(record, ...)
  local v = redis.call('HMGET', record, ...)
  for i = 2, v[1] and #v or 1 do
    v[i] = v[i] or (ONE[select(i, ...)] and '1')
  end
  return v
end
