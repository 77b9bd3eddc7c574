-- Does the caller still hold the task? nil if so; else the item's reply. `v`: st, tk and ep of the
-- record. `done` is the state that this very call leads to: found under the caller's token, the
-- call is a repeat and answered ok. With `or_ended` the call may have led to CANCELLED or EXPIRED
-- instead; then ok says so.
local function not_held_by(v, task_id, token, epoch, done, or_ended)
  if not v[1] then
    return { 'missing', task_id }
  end
  if v[2] == token and v[3] == epoch then
    if v[1] == 'PROCESSING' then
      return nil
    end
    if v[1] == done then
      return { 'ok', task_id }
    end
    if or_ended and (v[1] == 'CANCELLED' or v[1] == 'EXPIRED') then
      return { 'ok', task_id, v[1] }
    end
  end
  return { 'lost', task_id, v[1] }
end

local function not_held(record, ...)
  return not_held_by(read(record, 's', 'tk', 'ep'), ...)
end

-- The same for a report of how the attempt went. Whoever reports is alive: the crash that the claim
-- of a suspect booked (`bk`) is taken back.
local function not_reporting(record, ...)
  local item = not_held(record, ...)
  if not item and redis.call('HDEL', record, 'bk') == 1 then
    redis.call('HINCRBY', record, 'cr', -1)
  end
  return item
end
