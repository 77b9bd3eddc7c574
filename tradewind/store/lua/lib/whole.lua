-- Records that scripts cannot go on with: of a living or dead task, without a state, queue or name,
-- or with something else where a number stands. A payload that is gone is found by whoever claims
-- the task.
local WHOLE = { s = '^[PSRFMD]$', q = '^%S+$', n = '^%S+$' }
local NUMBERS = { 'pr', 'ep', 'rv', 'tk', 'at', 'cr', 'mc', 'c', 'sa', 'fa', 'nx', 'ex', 'xk', 'hc',
  'mb', 'ht' }

-- Names of the fields that are not as they should be; nil if all are, or nothing is there, or what
-- is there goes by itself.
local function damage_of(record)
  if redis.call('PTTL', record) ~= -1 then
    return nil
  end
  local bad = {}
  for _, field in ipairs({ 's', 'q', 'n' }) do
    if not string.find(redis.call('HGET', record, field) or '', WHOLE[field]) then
      bad[#bad + 1] = field
    end
  end
  for i, text in ipairs(redis.call('HMGET', record, unpack(NUMBERS))) do
    if text and not string.find(text, '^%-?%d+$') then
      bad[#bad + 1] = NUMBERS[i]
    end
  end
  return #bad > 0 and bad or nil
end

-- It dies of that, here and for good: only an operator can tell what it was, and redrive it. What
-- was counted of it before is corrected by recount. `t` is what put_in_order takes.
local function give_up(prefix, counts, t, now_ms)
  local is_dead = t.state == 'DEAD_LETTER' and t.queue
  for _, field in ipairs(t.damage) do
    redis.call('HDEL', t.record, field)
  end
  t.queue = redis.call('HGET', t.record, 'q') or 'default'
  t.state, t.died_ms, t.settled, t.ticket = 'DEAD_LETTER', now_ms, '1', nil
  local message = 'its record was damaged: ' .. table.concat(t.damage, ', ')
  redis.call('HSET', t.record, 'q', t.queue, 'n', redis.call('HGET', t.record, 'n') or 'damaged',
    'dk', 'damaged', 'ek', 'damaged', 'em', message, 'et', '', 'fo', 'its record was damaged',
    'se', '1', 'fa', int(now_ms))
  redis.call('HDEL', t.record, 'wk', 'nx', 'bk', 'ms', 'mt', 'mr', 'mb')
  if not is_dead then
    count(counts, 'd:' .. t.queue, 1)
  end
  changed(prefix, t.record, t.id, 's', 'DEAD_LETTER')
end
