-- What claim knows of the tasks behind tickets, by id: read and touched before anything is
-- written. A ticket is good if its record is PENDING at the ticket's revision. It is run if the
-- caller has the handler; one whose fingerprint was completed by `first`, or that is `over`
-- (expired), only ends.
local function set_of(names)
  local set = {}
  for _, name in ipairs(names) do
    set[name] = true
  end
  return set
end

local function parked_key(prefix, queue, name)
  return prefix .. 'parked:' .. queue .. ' ' .. name
end

-- Returns the task, nil if a key of it has left this node. c: prefix, handlers, seen, now_ms;
-- places: "queue place" -> list.
local function look(c, id, queue)
  if c.seen[id] then
    return c.seen[id]
  end
  local record = c.prefix .. 't:' .. id
  -- Touched, and read with all that taking it needs, in one call: this is the hottest path.
  local v = redis.pcall('HMGET', record, 's', 'rv', 'n', 'pr', 'dd', 'ex', 'cr', 'wt', 'tk', 'ep',
    'at', 'c', 'p')
  if has_left(v) then
    return nil
  end
  local t = { id = id, record = record, state = v[1], revision = v[2] or '1', name = v[3] or '',
    place = place_of(v[4] or '1', v[7]), expires = v[6], over = is_over(v[6], c.now_ms), read = v }
  if v[5] then
    local mark, left_ms = done_mark(c.prefix, v[5], c.now_ms)
    if not here({ mark }) then
      return nil
    end
    -- Past its own window a task is nobody's copy: the mark is of a later one that was run.
    local first = left_ms > 0 and redis.call('GET', mark)
    if first and first ~= id then
      t.mark, t.first = mark, c.prefix .. 't:' .. first
      if not here({ t.first }) then
        return nil
      end
    end
  end
  t.only_ends = t.over or t.first
  t.runnable = c.handlers[t.name]
  if not t.only_ends and not t.runnable then
    t.read = nil -- up to 128 payloads that nobody asked for
    if not here({ parked_key(c.prefix, queue, t.name) }) then
      return nil
    end
  end
  c.seen[id] = t
  return t
end

local function is_good(t, ticket)
  return t.state == 'PENDING' and t.revision == ticket.revision
end
