#!lua
-- reserve: at the entry's home, say which task at which region stands for this submit.
--
-- KEYS[1] entry  HASH  id, rg (region), ep, cf (confirmed), le (lease_until_ms), dg, rq,
--                       fr (freed: the state that its task ended in, see forget)
-- ARGV[1] task_id
-- ARGV[2] region
-- ARGV[3] epoch        int; one above the entry's own, for its own task_id: it moves on
-- ARGV[4] window_ms    int
-- ARGV[5] digest
-- ARGV[6] request_tag
-- ARGV[7] lease_ms     int
-- ARGV[8] not_before_ms  int, the window counts from then, by this server's clock; 0 = from now
-- RETURNS {"reserved"} | {"hit", task_id, region, epoch, confirmed, lease_left_ms, mine,
-- RETURNS same_payload, adopted, state}
-- @include now ledger
local entry = KEYS[1]
local now_ms = math.floor(now_us() / 1000)
local lease_ms = tonumber(ARGV[7])
local v = redis.call('HMGET', entry, 'id', 'ep', 'cf', 'rg', 'fr')
local ours = v[1] == ARGV[1] and not v[3] and not v[5]
-- Compare and set: of two that move it on from one epoch, the second may not choose the region.
local repeated = ours and v[2] == ARGV[3] and v[4] == ARGV[2]
local moves_on = ours and tonumber(ARGV[3]) == tonumber(v[2]) + 1
if v[1] and not repeated and not moves_on then
  local hit = ledger_hit(entry, ARGV[5], ARGV[6], now_ms, lease_ms)
  if hit then
    return hit
  end
end
redis.call('HSET', entry, 'id', ARGV[1], 'rg', ARGV[2], 'ep', ARGV[3], 'dg', ARGV[5],
  'rq', ARGV[6], 'le', int(now_ms + lease_ms))
redis.call('HDEL', entry, 'cf', 'fr')
redis.call('PEXPIRE', entry, int(tonumber(ARGV[4]) + math.max(0, tonumber(ARGV[8]) - now_ms)))
return { 'reserved' }
