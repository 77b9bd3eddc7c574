-- Tickets at the head of the ready lists, read and touched before anything is written.
-- Returns nil if a key has left this node; else per list what to do with each ticket.
local function parse(ticket)
  local id, revision, ready_ms = string.match(ticket, '^(.-):(%d+):(%d+)$')
  return { text = ticket, id = id, revision = revision, ready_ms = ready_ms }
end

-- A ticket is good if its record is PENDING at the ticket's revision, and runnable here if the
-- caller has the handler. `done` is the mark of a fingerprint that was completed before.
local function look(prefix, ticket, handlers)
  local t = parse(ticket)
  local record = prefix .. 't:' .. t.id
  if not here({ record }) then
    return nil
  end
  local v = redis.call('HMGET', record, 'st', 'rv', 'n', 'dd')
  t.record, t.name, t.good = record, v[3], v[1] == 'PENDING' and v[2] == t.revision
  if t.good and v[4] then
    local mark = prefix .. 'done:' .. v[4]
    if not here({ mark }) then
      return nil
    end
    local first = redis.call('GET', mark)
    if first and first ~= t.id then
      t.first = prefix .. 't:' .. first
      if not here({ t.first }) then
        return nil
      end
    end
  end
  t.runnable = t.good and (t.first or handlers[v[3]])
  return t
end
