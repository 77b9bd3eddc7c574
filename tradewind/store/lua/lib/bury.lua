-- State DEAD_LETTER since `died_ms`, to be purged at `until_ms`. `move_at_ms` puts it before the
-- courier; nil settles it, `why` says why, and k.hooked whether its on_dead is to hear of it. The
-- record loses its holder, never its failure.
local function bury(k, prefix, record, task_id, queue, kind, died_ms, until_ms, move_at_ms, why)
  redis.call('HSET', record, 's', 'DEAD_LETTER', 'dk', kind, 'fa', int(died_ms), 'fo', why)
  redis.call('HDEL', record, 'wk', 'nx')
  redis.call('ZADD', k.dead, int(died_ms), task_id)
  redis.call('ZADD', k.dead_until, int(until_ms), task_id)
  if move_at_ms then
    redis.call('ZADD', k.outbox, int(move_at_ms), task_id)
  else
    redis.call('HSET', record, 'se', '1')
    announce(k.hooks, k.hooked, task_id, queue, died_ms)
  end
  count(k.counts, 'd:' .. queue, 1)
  changed(prefix, record, task_id)
end
