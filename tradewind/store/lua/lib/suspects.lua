-- How many lists of a queue's suspects hold tickets, all three touched; nil: one has left the node.
local function suspects_of(prefix, queue)
  local answer = redis.pcall('EXISTS', list_at(prefix, queue, 's0'), list_at(prefix, queue, 's1'),
    list_at(prefix, queue, 's2'))
  return not has_left(answer) and answer or nil
end

-- The lists of suspects beside those of a claim: learnt, since there are rarely any, and there
-- whatever the claim is for, since their hint is passed on and tickets may be taken to them. nil:
-- one has left this node.
local function suspect_lists(c, queues, lists)
  local found, number = {}, {}
  for _, queue in ipairs(queues) do
    number[queue] = suspects_of(c.prefix, queue)
    if not number[queue] then
      return nil
    end
  end
  for i, list in ipairs(lists) do
    local place = 's' .. list.place
    found[i] = { key = list_at(c.prefix, list.queue, place), place = place, hint = list.suspects,
      queue = list.queue, lease_ms = list.lease_ms, patience_ms = list.patience_ms, looked = 0,
      added = 0, empty = number[list.queue] == 0 }
    c.places[list.queue .. ' ' .. place] = found[i]
  end
  return found
end

-- A ticket made before suspects had lists of their own: it is taken there.
local function is_misplaced(t, list)
  return is_suspect(t.place) and not is_suspect(list.place)
end

local function displace(c, t, ticket, list)
  local there = c.places[list.queue .. ' ' .. t.place]
  redis.call('RPUSH', there.key, ticket.text)
  count(c.counts, 'p' .. t.place .. ':' .. list.queue, 1)
  there.added = there.added + 1
end

-- Of the queues in `args` from index `first` on: queue -> whether suspects of it have tickets in
-- lists. nil: one of these lists has left this node.
local function suspects_among(prefix, args, first)
  local found = {}
  for i = first, #args do
    local number = suspects_of(prefix, args[i])
    if not number then
      return nil
    end
    found[args[i]] = number > 0
  end
  return found
end
