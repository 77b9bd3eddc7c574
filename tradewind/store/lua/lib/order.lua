-- Which indexes a task belongs to by its record, and with which score it is put back.
local function belongs(c, t, kind, key, wanted, score, reply)
  local is_there = redis.call('ZSCORE', key, t.id)
  if wanted and not is_there then
    redis.call('ZADD', key, score, t.id)
  elseif is_there and not wanted then
    c.gone[key] = c.gone[key] or {}
    table.insert(c.gone[key], t.id)
  else
    return
  end
  reply[#reply + 1] = { t.id, kind }
end

-- Appends {task_id, kind} to the reply for each repair.
local function put_in_order(c, t, reply)
  local is_dead, is_due = t.state == 'DEAD_LETTER', t.state == 'SCHEDULED' or t.state == 'FAILED'
  local waits = is_due or t.state == 'PENDING'
  -- With a lease that has ended: who holds it renews it, or a reaper takes the task back.
  belongs(c, t, 'lease', c.leases, t.state == 'PROCESSING', c.now_ms, reply)
  for rank, key in ipairs(c.due) do
    local is_here = is_due and tonumber(t.priority) == rank - 1
    belongs(c, t, 'due', key, is_here, t.due_ms or c.now_ms, reply)
  end
  belongs(c, t, 'expiry', c.expiry, waits and t.expires_ms, t.expires_ms, reply)
  belongs(c, t, 'dead', c.dead, is_dead, t.died_ms, reply)
  local until_ms = is_dead and int(t.died_ms + (c.kept[t.queue] or c.kept['']))
  belongs(c, t, 'dead', c.dead_until, is_dead, until_ms, reply)
  belongs(c, t, 'outbox', c.outbox, is_dead and not t.settled, c.now_ms, reply)
  if not is_dead then -- of a dead one it may have been told
    belongs(c, t, 'hook', c.hooks, false, nil, reply)
  end
  belongs(c, t, 'move', c.moving, t.state == 'MOVING', c.now_ms, reply)
  belongs(c, t, 'import', c.imports, t.unsettled, c.now_ms, reply)
end

-- What is to leave a key leaves it last and at once: it may empty the key.
local function leave(c)
  for key, gone in pairs(c.gone) do
    redis.call('ZREM', key, unpack(gone))
  end
end
