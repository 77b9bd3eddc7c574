-- Reads a partition whole, up to c.left entries: below 0 there are more. c.moved: a key has left.
local KINDS = { ['PROCESSING'] = 'r', ['SCHEDULED'] = 's', ['FAILED'] = 'f',
  ['DEAD_LETTER'] = 'd', ['MOVING'] = 'm' }

local function fields_of(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    found[flat[i]] = flat[i + 1]
  end
  return found
end

local function read_index(c, key)
  c.left = c.left - redis.call('ZCARD', key)
  for _, id in ipairs(c.left >= 0 and redis.call('ZRANGE', key, 0, -1) or {}) do
    c.ids[id] = true
  end
end

-- Some of the tickets may be stale: their records say what they are now.
local function read_list(c, key)
  if not here({ key }) then
    c.moved = true
    return
  end
  c.left = c.left - redis.call('LLEN', key)
  for _, text in ipairs(c.left >= 0 and redis.call('LRANGE', key, 0, -1) or {}) do
    c.ids[parse(text).id] = true
  end
end

-- Tasks by field of counts; nil: a record has left this node. P is there even if it is 0.
local function count_records(c)
  local actual = { P = 0 }
  local function one_more(field)
    actual[field] = (actual[field] or 0) + 1
  end
  for id in pairs(c.ids) do
    local record = c.prefix .. 't:' .. id
    if not here({ record }) then
      return nil
    end
    local v = read(record, 's', 'q', 'pr', 'cr')
    if KINDS[v[1]] then
      one_more(KINDS[v[1]] .. ':' .. v[2])
    elseif v[1] == 'PENDING' then
      local place = place_of(v[3], v[4])
      one_more('P')
      one_more('p' .. v[3] .. ':' .. v[2])
      if is_suspect(place) then
        one_more('p' .. place .. ':' .. v[2])
      end
    end
  end
  return actual
end
