-- What claim knows of the tasks behind tickets, by id: read and touched before anything is
-- written. A ticket is good if its record is PENDING at the ticket's revision. Its fate: 'run' if
-- the caller has the handler, else 'park'; one that has expired, or whose fingerprint was completed
-- by `first`, only 'end's. Most tasks wait for their first run with FRESH fields, and dd where they
-- were deduplicated, so that there is nothing more to read: what says nothing is absent.
local FRESH = 5 -- s, n, c, p and q
local NONE = {}

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
  -- Touched, and read with all that taking it needs: this is the hottest path.
  local v = redis.pcall('HMGET', record, 's', 'n', 'c', 'p', 'dd')
  if has_left(v) then
    return nil
  end
  local dd = v[5]
  local more = redis.call('HLEN', record) == (dd and FRESH + 1 or FRESH) and NONE
    or redis.call('HMGET', record, 'rv', 'pr', 'ex', 'cr', 'wt', 'tk', 'ep', 'at', 'fo')
  local t = { id = id, record = record, state = v[2] and v[1], revision = more[1] or '1',
    place = place_of(more[2] or '1', more[4]), read = v, more = more,
    fate = is_over(more[3], c.now_ms) and 'end' or c.handlers[v[2]] and 'run' or 'park' }
  if dd and dd ~= '' then
    local mark, left_ms = done_mark(c.prefix, dd, c.now_ms)
    local first = redis.pcall('GET', mark) -- touched, too
    if has_left(first) then
      return nil
    end
    -- Past its own window a task is nobody's copy: the mark is of a later one that was run.
    if left_ms > 0 and first and first ~= id then
      t.mark, t.first, t.fate = mark, c.prefix .. 't:' .. first, 'end'
      if not here({ t.first }) then
        return nil
      end
    end
  end
  if t.fate == 'park' then
    v[4] = nil -- up to 128 payloads that nobody asked for
    if not here({ parked_key(c.prefix, queue, v[2] or '') }) then
      return nil
    end
  end
  c.seen[id] = t
  return t
end

local function is_good(t, ticket)
  return t.state == 'PENDING' and t.revision == ticket.turn.revision
end
