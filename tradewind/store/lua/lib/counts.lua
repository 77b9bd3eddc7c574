-- Tasks by state: fields are KIND:queue, and P for all that is ready. A field at 0 is deleted,
-- or queue names of callers would pile up.
local function count(counts, field, by)
  if redis.call('HINCRBY', counts, field, by) <= 0 then
    redis.call('HDEL', counts, field)
  end
end

-- `priority` is '0' (high), '1' or '2' (low).
local function count_ready(counts, queue, priority, by)
  count(counts, 'p' .. priority .. ':' .. queue, by)
  count(counts, 'P', by)
end

local function depth(counts)
  return tonumber(redis.call('HGET', counts, 'P') or 0)
end
