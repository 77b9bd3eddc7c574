-- Tickets that a claimer cannot run wait in parked lists by handler name, so that they stand in
-- nobody's way. HASH parked: "queue name" -> tickets parked.
-- A space stands in neither name, so no two pairs share a key.
local function parked_key(prefix, queue, name)
  return prefix .. 'parked:' .. queue .. ' ' .. name
end

local function park(prefix, queue, ticket)
  redis.call('RPUSH', parked_key(prefix, queue, ticket.name), ticket.text)
  redis.call('HINCRBY', prefix .. 'parked', queue .. ' ' .. ticket.name, 1)
end

-- Lists that a worker with these handlers can take back now: {queue, name, key}; nil if moving.
local function find_parked(prefix, queues, handlers)
  local found, others = {}, 0
  local parked = redis.call('HKEYS', prefix .. 'parked')
  for i = 1, math.min(#parked, 128) do
    local queue, name = string.match(parked[i], '^(%S+) (%S+)$')
    if queues[queue] and handlers[name] then
      local key = parked_key(prefix, queue, name)
      if not here({ key }) then
        return nil
      end
      found[#found + 1] = { queue = queue, name = name, key = key }
    elseif queues[queue] then
      others = others + 1
    end
  end
  return found, others
end

-- Back to the head of their ready lists, oldest first again; at most `most` tickets.
local function unpark(prefix, found, most)
  for _, list in ipairs(found) do
    local tickets = redis.call('LPOP', list.key, most) or {}
    for i = #tickets, 1, -1 do
      local id = string.match(tickets[i], '^(.-):')
      local priority = redis.call('HGET', prefix .. 't:' .. id, 'pr')
      if priority then
        redis.call('LPUSH', prefix .. 'q:' .. list.queue .. ':' .. priority, tickets[i])
      end
    end
    local left = redis.call('LLEN', list.key)
    if left > 0 then
      redis.call('HSET', prefix .. 'parked', list.queue .. ' ' .. list.name, left)
    else
      redis.call('HDEL', prefix .. 'parked', list.queue .. ' ' .. list.name)
    end
  end
end
