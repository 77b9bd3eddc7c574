-- Tasks by state: fields are KIND:queue, and P for all that is ready. A field at 0 is deleted, or
-- queue names of callers would pile up. P stays, so that no script empties the key and then
-- touches it again: while its slot moves that fails, after earlier writes stayed.
local function count(counts, field, by)
  if redis.call('HINCRBY', counts, field, by) <= 0 then
    redis.call('HDEL', counts, field)
  end
end

-- By priority, suspects included, and these once more by their own place.
local function count_ready(counts, queue, place, by)
  redis.call('HINCRBY', counts, 'P', by)
  count(counts, 'p' .. string.sub(place, -1) .. ':' .. queue, by)
  if #place > 1 then
    count(counts, 'p' .. place .. ':' .. queue, by)
  end
end

local function depth(counts)
  return tonumber(redis.call('HGET', counts, 'P') or 0)
end
