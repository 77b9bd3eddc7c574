-- Is the id known here? The item's reply if so; a tombstone of a lower epoch does not count.
-- `v`: s and ep of the record.
local function known(v, epoch)
  if not v[1] or (v[1] == 'REFUSED' and tonumber(v[2] or 1) < epoch) then
    return nil
  end
  return v[1] == 'REFUSED' and { 'tombstone' } or { 'known', v[1] }
end

-- What many tasks of one call have in common, read once: text is queue, name, priority, epoch,
-- max_crashes ("" = 3) and fence. `fields` are those of a record that are not stored where they are
-- the default. nil: a key of it has left this node.
local function shape_of(c, text)
  local s = c.shapes[text]
  if not s then
    s = { tickets = {} }
    s.queue, s.name, s.priority, s.epoch, s.max_crashes, s.fence =
      string.match(text, '^(%S+) (%S+) (%d) (%d+) (%d*) (.*)$')
    s.list, s.hint = list_at(c.prefix, s.queue, s.priority), hint_of(c.prefix, s.queue, s.priority)
    if not here({ s.list, s.hint }) then
      return nil
    end
    s.fields = { 'q', s.queue, 'n', s.name }
    local rest = { 'ep', s.epoch, '1', 'pr', s.priority, '1', 'mc', s.max_crashes, '',
      'fn', s.fence, '' }
    for i = 1, #rest, 3 do
      if rest[i + 1] ~= rest[i + 2] then
        s.fields[#s.fields + 1], s.fields[#s.fields + 2] = rest[i], rest[i + 1]
      end
    end
    c.shapes[text] = s
    c.order[#c.order + 1] = s
  end
  return s
end

-- When it may start, and what else only few tasks have; "" for none. See enqueue's header.
local AT_ONCE = { start_ms = 0 }

local function terms_of(text, now_ms)
  if text == '' then
    return AT_ONCE
  end
  local delay_ms, not_before_ms, expires_ms, keep_ms, done_key =
    string.match(text, '^(%d+) (%d+) (%d*) (%d+) (%S*)$')
  return { start_ms = math.max(now_ms + delay_ms, tonumber(not_before_ms)), keep_ms = keep_ms,
    expires_ms = expires_ms ~= '' and expires_ms or nil,
    done_key = done_key ~= '' and done_key or nil }
end
