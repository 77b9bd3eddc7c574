-- A dead letter arrives as what it was: settled, dead since the same moment, with what is left of
-- its retention; who had not heard of it yet hears of it here. `text`: JSON of kind, died_ms,
-- left_ms, why, fields (of the record, in pairs) and, if word of it is due, notice_ms until then.
-- k: counts, dead, dead_until, hooks; `of`: record, id, queue.
local function rest(k, prefix, of, now_ms, text)
  local dead = cjson.decode(text)
  local fields = dead.fields
  redis.call('HSET', of.record, 'sa', int(dead.began_ms), unpack(fields))
  k.hooked = '' -- its death is no news
  bury(k, prefix, of.record, of.id, of.queue, dead.kind, dead.died_ms, now_ms + dead.left_ms, nil,
    dead.why)
  if dead.notice_ms then
    redis.call('ZADD', k.hooks, int(now_ms + dead.notice_ms), of.id)
  end
end
