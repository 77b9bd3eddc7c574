#!lua flags=no-writes
-- stranded: what waits in one list or set of due times, or is dead, a few entries at a time. Stale
-- tickets are passed over; of tasks whose fence a region of `groups` is outside of nothing is told
-- but, if no region of `pools` is inside it either, their number.
--
-- KEYS[1] lane  LIST of tickets, ready or parked, or ZSET task_id -> due_ms, or -> died_ms
-- ARGV[1] prefix    of the partition's keys: records are learnt
-- ARGV[2] set       "due" | "dead": which set of times it is; "" = a list
-- ARGV[3] offset    int
-- ARGV[4] limit     int, entries to look at
-- ARGV[5] groups    of the caller's region, comma-separated; "*" = it is this one
-- ARGV[6] older_ms  int, only what could have started so long ago; "" = whenever that is
-- ARGV[7] bytes     int, of specs: with as much it stops before the limit
-- ARGV[8] pools     groups of all regions whose workers live, comma-separated
-- RETURNS {"ok", now_ms, seen, more, unseen, item...}; item: {task_id, fields}; more: 1 if it has
-- RETURNS not come to the end | {"moving"}
-- @include read now here ticket fence
local lane, prefix, offset, limit = KEYS[1], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local now_ms = math.floor(now_us() / 1000)
local before_ms = ARGV[6] ~= '' and now_ms - tonumber(ARGV[6])
local entries
if ARGV[2] == '' then
  entries = redis.call('LRANGE', lane, offset, offset + limit - 1)
elseif before_ms then
  entries = redis.call('ZRANGEBYSCORE', lane, '-inf', int(before_ms), 'LIMIT', offset, limit)
else
  entries = redis.call('ZRANGE', lane, offset, offset + limit - 1)
end

local BELONGS = { due = { ['SCHEDULED'] = true, ['FAILED'] = true },
  dead = { ['DEAD_LETTER'] = true } }

local function waits(v, ticket)
  return v[1] == 'PENDING' and v[2] == ticket.turn.revision
    and not (before_ms and tonumber(ticket.turn.ready_ms) > before_ms)
end

local reply, bytes = { 'ok', int(now_ms), #entries, #entries == limit and 1 or 0, 0 }, 0
for i, entry in ipairs(entries) do
  local ticket = ARGV[2] == '' and parse(entry)
  local id = ticket and ticket.id or entry
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return { 'moving' }
  end
  local v = read(record, 's', 'rv', 'fn')
  local is_here = ticket and waits(v, ticket) or not ticket and BELONGS[ARGV[2]][v[1]]
  if is_here and (ARGV[5] == '*' or inside(v[3], ARGV[5])) then
    reply[#reply + 1] = { id, redis.call('HGETALL', record) }
    bytes = bytes + redis.call('HSTRLEN', record, 'p')
  elseif is_here and not inside(v[3], ARGV[8]) then
    reply[5] = reply[5] + 1
  end
  if bytes >= tonumber(ARGV[7]) then
    reply[3], reply[4] = i, 1
    break
  end
end
return reply
