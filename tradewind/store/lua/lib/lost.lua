-- Is there a ticket that redeems this revision? Each list is read once a call, and only as long as
-- c.look tickets are left to read. nil: a list has left this node; 'unsearched': too many to tell.
local function find_ticket(c, lists, id, revision)
  for _, key in ipairs(lists) do
    if not c.lists[key] then
      if not here({ key }) then
        return nil
      end
      local size = redis.call('LLEN', key)
      if size > c.look then
        return 'unsearched'
      end
      c.look, c.lists[key] = c.look - size, {}
      for _, text in ipairs(redis.call('LRANGE', key, 0, -1)) do
        local ticket = parse(text)
        c.lists[key][ticket.id .. ':' .. ticket.turn.revision] = true
      end
    end
    if c.lists[key][id .. ':' .. revision] then
      return 'there'
    end
  end
  return 'lost'
end

-- Looks for the ticket of a PENDING task `t` and touches what a new one needs. False: moving.
-- A ticket from before suspects had lists of their own lies by its priority.
local function look_for_ticket(c, t)
  t.place = place_of(t.priority, t.crashes)
  t.list, t.hint = list_at(c.prefix, t.queue, t.place), hint_of(c.prefix, t.queue, t.place)
  local parked, field = c.prefix .. 'parked', t.queue .. ' ' .. t.name
  local aside = parked .. ':' .. field
  local by_priority = list_at(c.prefix, t.queue, t.priority)
  t.ticket = find_ticket(c, { t.list, by_priority, aside }, t.id, t.revision)
  if t.ticket == nil or not here({ t.hint, parked }) then
    return false
  end
  local number = redis.call('LLEN', aside)
  if number > 0 and redis.call('HEXISTS', parked, field) == 0 then
    c.unlisted[field] = { number = number, queue = t.queue, id = t.id }
  end
  return true
end

-- Lists of parked tickets that no claim would look at are named again.
local function list_parked(c, reply)
  for field, list in pairs(c.unlisted) do
    redis.call('HSET', c.prefix .. 'parked', field, list.number)
    redis.call('HINCRBY', c.prefix .. 'parked', list.queue, list.number)
    reply[#reply + 1] = { list.id, 'ticket' }
  end
end
