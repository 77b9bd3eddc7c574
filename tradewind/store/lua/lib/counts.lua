-- Tasks by state: fields are KIND:queue, and P for all that is ready. A field at 0 is deleted, or
-- queue names of callers would pile up. P stays, so that no script empties the key and then
-- touches it again: while its slot moves that fails, after earlier writes stayed.
local function count(counts, field, by)
  if redis.call('HINCRBY', counts, field, by) <= 0 then
    redis.call('HDEL', counts, field)
  end
end

-- `priority` is '0' (high), '1' or '2' (low).
local function count_ready(counts, queue, priority, by)
  redis.call('HINCRBY', counts, 'P', by)
  count(counts, 'p' .. priority .. ':' .. queue, by)
end

local function depth(counts)
  return tonumber(redis.call('HGET', counts, 'P') or 0)
end
