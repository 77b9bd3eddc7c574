#!lua
-- enqueue: store new tasks of one partition, each unless its id or its ledger entry is known.
--
-- KEYS[1] counts      HASH  tasks by state and queue
-- KEYS[2] due_high    ZSET  task_id -> due_ms
-- KEYS[3] due_normal  ZSET
-- KEYS[4] due_low     ZSET
-- KEYS[5] expiry      ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] not_after_ms  int  this server's clock; later nothing is stored
-- ARGV[2] region        for the ledger entry
-- ARGV[3] prefix        of the partition's keys: lists and hints are learnt from shapes
-- ARGV[4] lease_ms      int  what an adopter of a reservation gets
-- EACH KEYS record  HASH  the task
-- EACH KEYS entry   HASH  its ledger entry; the record again where there is none here
-- EACH ARGV task_id
-- EACH ARGV born_ms  int, the time that its id tells
-- EACH ARGV shape    "queue name priority epoch max_crashes fence"; max_crashes "" = 3, fence:
--                    groups, comma-separated
-- EACH ARGV packed   StoredSpec, see codec.slim
-- EACH ARGV terms    "" or "delay_ms not_before_ms expires_ms keep_ms done_key"; expires_ms "" =
--                    never, keep_ms of the record once expired, done_key KEY:UNTIL: see lib/done
-- EACH ARGV mark     "" = no ledger entry here, or "window_ms:SIZE:", a request tag of SIZE bytes
--                    and the digest of the payload
-- RETURNS {"ok", now_ms, ready, item...} | {"moving"}; ready: tasks that were so before; item: the
-- RETURNS state in which it was stored
-- RETURNS | {"known", state} | {"tombstone"} | {"late"}
-- RETURNS | {"hit", task_id, region, epoch, confirmed, lease_left_ms, mine, same_payload, adopted,
-- RETURNS state}
-- @include now here pieces places counts wake changed ended due over ledger store fresh
local region, lease_ms = ARGV[2], tonumber(ARGV[4])
local KEYS_EACH, ARGV_EACH = 2, 6
local now_ms = math.floor(now_us() / 1000)
local c = { prefix = ARGV[3], counts = KEYS[1], due = { KEYS[2], KEYS[3], KEYS[4] },
  expiry = KEYS[5], now_ms = now_ms, sums = {}, shapes = {}, order = {},
  ticket_end = ':1:' .. int(now_ms) }
local items = (#KEYS - 5) / KEYS_EACH
for i = 0, items - 1 do
  if not shape_of(c, ARGV[7 + i * ARGV_EACH]) then
    return { 'moving' }
  end
end

local reply = { 'ok', int(now_ms), depth(c.counts) }
for i = 0, items - 1 do
  local k, a = 6 + i * KEYS_EACH, 5 + i * ARGV_EACH
  local record, s, mark = KEYS[k], c.shapes[ARGV[a + 2]], ARGV[a + 5]
  local v = redis.call('HMGET', record, 's', 'ep', 'wt')
  local item = known(v, tonumber(s.epoch))
  if not item and now_ms > tonumber(ARGV[1]) then
    item = { 'late' }
  end
  local window_ms, digest, tag = mark_of(mark)
  if not item and window_ms then
    item = ledger_hit(KEYS[k + 1], digest, tag, now_ms, lease_ms)
    local ours = item and item[2] == ARGV[a] and tonumber(s.epoch) >= tonumber(item[4])
    if ours and item[5] == 0 then
      item = nil -- our own reservation: carry it through
    end
  end
  if not item then
    local terms = terms_of(ARGV[a + 4], now_ms)
    item = store(c, s, record, ARGV[a], v, ARGV[a + 3], ARGV[a + 1], terms)
    if window_ms then
      local left_ms = window_ms + math.max(0, terms.start_ms - now_ms)
      enter(KEYS[k + 1], ARGV[a], region, s.epoch, digest, tag, left_ms)
    end
  end
  reply[#reply + 1] = item
end
line_up(c)
return reply
