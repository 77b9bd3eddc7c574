-- What an import is answered that may not be stored, or is here; nil: it may come. `who` it must
-- be for: deployment and region. `refused` of a live task: the region's own courier has not heard
-- yet that it had left.
local function not_coming(identity, memory, record, who, epoch)
  local found = redis.call('HMGET', identity, 'deployment', 'region')
  if found[1] ~= who[1] or found[2] ~= who[2] then
    return { 'foreign', found[1] or '', found[2] or '' }
  end
  local came, refused = remembered(memory)
  if came >= epoch then
    return { 'known' }
  end
  if refused >= epoch then
    return { 'refused' }
  end
  local v = read(record, 's', 'ep')
  if v[1] and tonumber(v[2]) >= epoch then
    return { v[1] == 'REFUSED' and 'refused' or 'known' }
  end
  if v[1] and v[1] ~= 'FORWARDED' and v[1] ~= 'REFUSED' then
    return { 'refused' }
  end
  return nil
end

-- What is to run here: due in `delay_ms`, or ready if that is 0. `hint` is of its list.
local function line_in(prefix, counts, due, t, now_ms, delay_ms, hint)
  if delay_ms > 0 then
    delay(prefix, counts, due, t, 'SCHEDULED', now_ms + delay_ms, hint)
  else
    local place = place_of(t.priority, t.crashes)
    make_ready(prefix, counts, t.record, t.id, t.queue, place, now_ms, false)
    wake(hint)
  end
end

-- Fields of a record that are stored only where there is something to say.
local function set_given(record, fields)
  for i = 1, #fields, 2 do
    if fields[i + 1] ~= '' then
      redis.call('HSET', record, fields[i], fields[i + 1])
    end
  end
end
