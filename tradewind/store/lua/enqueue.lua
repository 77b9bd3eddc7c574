#!lua
-- enqueue: store new tasks of one partition, each unless its id or its ledger entry is known.
-- Every key is declared, so a slot on the move is refused before the script starts.
--
-- KEYS[1] counts      HASH  tasks by state and queue
-- KEYS[2] due_high    ZSET  task_id -> due_ms
-- KEYS[3] due_normal  ZSET
-- KEYS[4] due_low     ZSET
-- KEYS[5] expiry      ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] not_after_ms  int  this server's clock; later nothing is stored
-- ARGV[2] region        for the ledger entry
-- ARGV[3] prefix        of the partition's keys
-- ARGV[4] lease_ms      int  what an adopter of a reservation gets
-- EACH KEYS record  HASH  the task
-- EACH KEYS ready   LIST  tickets of its queue and priority
-- EACH KEYS wake    LIST  the queue's hint
-- EACH KEYS entry   HASH  its ledger entry; the record again where there is none here
-- EACH ARGV task_id
-- EACH ARGV queue
-- EACH ARGV name
-- EACH ARGV priority     0 | 1 | 2
-- EACH ARGV packed       StoredSpec
-- EACH ARGV epoch        int
-- EACH ARGV fence        groups, comma-separated
-- EACH ARGV delay_ms     int, from now
-- EACH ARGV max_crashes  int, "" = 3
-- EACH ARGV done_key     KEY:UNTIL where deduplicated (see lib/done), else ""
-- EACH ARGV expires_ms   int, "" = never
-- EACH ARGV keep_ms      int, of its record once expired
-- EACH ARGV window_ms    int, "" = no ledger entry here
-- EACH ARGV digest       of the payload
-- EACH ARGV request_tag  hashed request id, or ""
-- EACH ARGV not_before_ms  int, an instant by this server's clock; 0 = none
-- RETURNS {"ok", now_ms, depth, item...}; item: {"stored", state} | {"known", state}
-- RETURNS | {"tombstone"} | {"late"} | {"hit", task_id, region, epoch, confirmed, lease_left_ms,
-- RETURNS mine, same_payload, adopted, state}
-- @include now counts wake changed ready ended due over ledger store
local counts, due, expiry = KEYS[1], { KEYS[2], KEYS[3], KEYS[4] }, KEYS[5]
local region, prefix, lease_ms = ARGV[2], ARGV[3], tonumber(ARGV[4])
local KEYS_EACH, ARGV_EACH = 4, 16
local now_ms = math.floor(now_us() / 1000)

local reply = { 'ok', int(now_ms), 0 }
local items = (#KEYS - 5) / KEYS_EACH
for i = 0, items - 1 do
  local k, a = 6 + i * KEYS_EACH, 5 + i * ARGV_EACH
  local with_entry = ARGV[a + 12] ~= ''
  local item = known(KEYS[k], tonumber(ARGV[a + 5]))
  if not item and now_ms > tonumber(ARGV[1]) then
    item = { 'late' }
  end
  if not item and with_entry then
    item = ledger_hit(KEYS[k + 3], ARGV[a + 13], ARGV[a + 14], now_ms, lease_ms)
    local ours = item and item[2] == ARGV[a] and tonumber(ARGV[a + 5]) >= tonumber(item[4])
    if ours and item[5] == 0 then
      item = nil -- our own reservation: carry it through
    end
  end
  if not item then
    local start_ms = math.max(now_ms + tonumber(ARGV[a + 7]), tonumber(ARGV[a + 15]))
    item = store(prefix, counts, due, expiry, k, a, now_ms, start_ms)
    if with_entry then
      redis.call('HSET', KEYS[k + 3], 'id', ARGV[a], 'rg', region, 'ep', ARGV[a + 5], 'cf', '1',
        'dg', ARGV[a + 13], 'rq', ARGV[a + 14])
      redis.call('HDEL', KEYS[k + 3], 'fr')
      redis.call('PEXPIRE', KEYS[k + 3], int(tonumber(ARGV[a + 12]) + start_ms - now_ms))
    end
  end
  reply[#reply + 1] = item
end
reply[3] = depth(counts)
return reply
