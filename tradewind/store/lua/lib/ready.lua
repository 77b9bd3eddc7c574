-- State PENDING: a new revision, and a ticket that only this revision redeems. Tickets carry
-- what claim needs to drop a stale one: task_id:revision:ready_ms. Returns the revision.
-- The caller has set every other field and has touched record and list.
local function make_ready(prefix, counts, record, task_id, queue, priority, now_ms, at_head)
  redis.call('HSET', record, 'st', 'PENDING')
  local revision = int(changed(prefix, record, task_id))
  local ticket = task_id .. ':' .. revision .. ':' .. int(now_ms)
  local list = prefix .. 'q:' .. queue .. ':' .. priority
  redis.call(at_head and 'LPUSH' or 'RPUSH', list, ticket)
  count_ready(counts, queue, priority, 1)
  return revision
end
