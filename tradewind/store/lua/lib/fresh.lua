local function append(list, ...)
  for i = 1, select('#', ...) do
    list[#list + 1] = select(i, ...)
  end
end

-- Stores a new task of shape `s`: see lib/store. `v`: s, ep and wt of what is left of an earlier
-- epoch. Due times are no hint that stays: of the first one of the partition a worker is told, who
-- then knows when to look. Tickets and counts are noted, for `line_up`. Returns the state.
local function store(c, s, record, id, v, packed, born_ms, terms)
  local fields, is_delayed = s.fields, terms.start_ms > c.now_ms
  if v[1] then
    redis.call('PERSIST', record) -- a tombstone of an earlier epoch had a TTL
  end
  if is_over(terms.expires_ms, c.now_ms) then
    redis.call('HSET', record, 'p', packed, 'c', c.now_ms - born_ms, unpack(fields))
    end_as(c.prefix, record, id, 0, v[3], 'EXPIRED', c.now_ms, terms.keep_ms)
    return 'EXPIRED'
  end
  if is_delayed or terms.expires_ms or terms.done_key then
    fields = { unpack(s.fields) }
    if is_delayed then append(fields, 'nx', int(terms.start_ms)) end
    if terms.done_key then append(fields, 'dd', terms.done_key) end
    if terms.expires_ms then
      append(fields, 'ex', terms.expires_ms, 'xk', terms.keep_ms)
      redis.call('ZADD', c.expiry, terms.expires_ms, id)
    end
  end
  local state = is_delayed and 'SCHEDULED' or 'PENDING'
  redis.call('HSET', record, 's', state, 'p', packed, 'c', c.now_ms - born_ms, unpack(fields))
  if is_delayed then
    if be_due(c.due, s.priority, id, terms.start_ms) then
      wake(s.hint)
    end
    add(c.sums, 's:' .. s.queue, 1)
  else
    s.tickets[#s.tickets + 1] = id .. c.ticket_end
  end
  if v[3] then
    redis.call('SPUBLISH', c.prefix .. 'watch', id)
  end
  return state
end

-- Tickets of what is ready, as lib/ready makes them, with one call a list; the counts of all.
local function line_up(c)
  for _, s in ipairs(c.order) do
    if #s.tickets > 0 then
      in_pieces('RPUSH', s.list, s.tickets)
      add_ready(c.sums, s.queue, s.priority, #s.tickets)
      wake(s.hint)
    end
  end
  book(c.counts, c.sums)
end
