-- What claim knows of the tasks behind tickets, by id: read and touched before anything is
-- written. A ticket is good if its record is PENDING at the ticket's revision, and runnable if
-- the caller has the handler, or the fingerprint was completed by `first`.
local function parse(ticket)
  local id, revision, ready_ms = string.match(ticket, '^(.-):(%d+):(%d+)$')
  return { text = ticket, id = id, revision = revision, ready_ms = ready_ms }
end

local function parked_key(prefix, queue, name)
  return prefix .. 'parked:' .. queue .. ' ' .. name
end

-- Returns the task, nil if a key of it has left this node. c: prefix, handlers, seen.
local function look(c, id, queue)
  if c.seen[id] then
    return c.seen[id]
  end
  local record = c.prefix .. 't:' .. id
  if not here({ record }) then
    return nil
  end
  local v = redis.call('HMGET', record, 'st', 'rv', 'n', 'pr', 'dd')
  local t = { id = id, record = record, state = v[1], revision = v[2], name = v[3] or '',
    priority = v[4] }
  if v[5] then
    t.mark = c.prefix .. 'done:' .. v[5]
    if not here({ t.mark }) then
      return nil
    end
    local first = redis.call('GET', t.mark)
    if first and first ~= id then
      t.first = c.prefix .. 't:' .. first
      if not here({ t.first }) then
        return nil
      end
    end
  end
  t.runnable = t.first or c.handlers[t.name]
  if not t.runnable and not here({ parked_key(c.prefix, queue, t.name) }) then
    return nil
  end
  c.seen[id] = t
  return t
end

local function is_good(t, ticket)
  return t.state == 'PENDING' and t.revision == ticket.revision
end

-- Looks at the heads of the lists, in their order, until `want` runnable tasks or `most` tickets
-- were seen: tickets that cannot be run must not hide those behind them. False: moving.
local function look_ahead(c, lists, want, most)
  for _, list in ipairs(lists) do
    while want > 0 and most > 0 do
      local last = list.looked + math.min(want, most) - 1
      local tickets = redis.call('LRANGE', list.key, list.looked, last)
      if #tickets == 0 then
        break
      end
      for _, text in ipairs(tickets) do
        local ticket = parse(text)
        local t = look(c, ticket.id, list.queue)
        if not t then
          return false
        end
        want = want - ((t.runnable and not t.first and is_good(t, ticket)) and 1 or 0)
      end
      list.looked = list.looked + #tickets
      most = most - #tickets
    end
  end
  return true
end
