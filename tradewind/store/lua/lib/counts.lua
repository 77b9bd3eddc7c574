-- Tasks by state: fields are KIND:queue, and P for all that is ready. A field at 0 is deleted, or
-- queue names of callers would pile up. P stays, so that no script empties the key and then
-- touches it again: while its slot moves that fails, after earlier writes stayed.
local function count(counts, field, by)
  if redis.call('HINCRBY', counts, field, by) <= 0 and field ~= 'P' then
    redis.call('HDEL', counts, field)
  end
end

-- Many tasks cost one call a field: `sums`, field -> by, is booked once all of them were added.
local function add(sums, field, by)
  sums[field] = (sums[field] or 0) + by
end

-- By priority, suspects included, and these once more by their own place.
local function add_ready(sums, queue, place, by)
  add(sums, 'P', by)
  add(sums, 'p' .. string.sub(place, -1) .. ':' .. queue, by)
  if #place > 1 then
    add(sums, 'p' .. place .. ':' .. queue, by)
  end
end

local function book(counts, sums)
  for field, by in pairs(sums) do
    count(counts, field, by)
  end
end

local function count_ready(counts, queue, place, by)
  local sums = {}
  add_ready(sums, queue, place, by)
  book(counts, sums)
end

local function depth(counts)
  return tonumber(redis.call('HGET', counts, 'P') or 0)
end
