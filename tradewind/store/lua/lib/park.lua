-- Tickets that a claimer cannot run wait in parked lists by handler name, so that they stand in
-- nobody's way. HASH parked: queue -> tickets parked, and "queue name" -> those of one name; a
-- space stands in neither, so no two pairs share a field.

-- Lists that a worker with these handlers can take back, at most `most` tickets of each.
-- c.parked becomes queue -> tickets parked. nil: moving.
local function find_parked(c, parked, queues, most)
  local found = {}
  c.parked, c.deltas = {}, {}
  if redis.call('EXISTS', parked) == 0 then
    return found
  end
  for _, queue in ipairs(queues) do
    c.parked[queue] = tonumber(redis.call('HGET', parked, queue) or 0)
    for name in pairs(c.parked[queue] > 0 and c.handlers or {}) do
      if redis.call('HEXISTS', parked, queue .. ' ' .. name) == 1 then
        local key = parked_key(c.prefix, queue, name)
        if not here({ key }) then
          return nil
        end
        local tickets = most > 0 and redis.call('LRANGE', key, 0, most - 1) or {}
        for _, text in ipairs(tickets) do
          if not look(c, parse(text).id, queue) then
            return nil
          end
        end
        found[#found + 1] = { queue = queue, name = name, key = key, tickets = tickets }
      end
    end
  end
  return found
end

local function recount(c, queue, name, by)
  c.parked[queue] = (c.parked[queue] or 0) + by
  c.deltas[queue] = (c.deltas[queue] or 0) + by
  c.deltas[queue .. ' ' .. name] = (c.deltas[queue .. ' ' .. name] or 0) + by
end

local function park(c, queue, t, ticket)
  redis.call('RPUSH', parked_key(c.prefix, queue, t.read[2]), ticket.text)
  recount(c, queue, t.read[2], 1)
end

-- Back to the head of their ready lists, oldest first again.
local function unpark(c, found)
  for _, from in ipairs(found) do
    for i = #from.tickets, 1, -1 do
      local ticket = parse(from.tickets[i])
      local t = c.seen[ticket.id]
      if is_good(t, ticket) then
        local list = c.places[from.queue .. ' ' .. t.place]
        redis.call('LPUSH', list.key, ticket.text)
        list.added = list.added + 1
      end
    end
    if #from.tickets > 0 then
      redis.call('LPOP', from.key, #from.tickets)
    end
    recount(c, from.queue, from.name, -#from.tickets)
  end
end

-- What was parked and taken back, written down last: what grows before what may empty the key.
local function book_parked(c, parked)
  for field, by in pairs(c.deltas) do
    if by > 0 then
      redis.call('HINCRBY', parked, field, by)
    end
  end
  for field, by in pairs(c.deltas) do
    if by < 0 and redis.call('HINCRBY', parked, field, by) <= 0 then
      redis.call('HDEL', parked, field)
    end
  end
end
