-- What a ledger entry says to a submit; nil if there is no entry. An unconfirmed entry past its
-- lease is adopted: the lease goes to this caller, who carries the submit through. One that is
-- freed says so to repeats of the very submit that it stood for, and is none to anybody else.
local function ledger_hit(entry, digest, request_tag, now_ms, lease_ms)
  local v = redis.call('HMGET', entry, 'id', 'rg', 'ep', 'cf', 'le', 'dg', 'rq', 'fr')
  local mine = (request_tag ~= '' and v[7] == request_tag) and 1 or 0
  if not v[1] or (v[8] and mine == 0) then
    return nil
  end
  local same = v[6] == digest and 1 or 0
  if v[8] then
    return { 'hit', v[1], v[2], v[3], 1, 0, mine, same, 0, v[8] }
  end
  local left, adopted = 0, 0
  if not v[4] then
    left = math.max(0, tonumber(v[5]) - now_ms)
    if left == 0 and v[6] == digest then
      redis.call('HSET', entry, 'le', int(now_ms + lease_ms))
      adopted = 1
    end
  end
  return { 'hit', v[1], v[2], v[3], v[4] and 1 or 0, left, mine, same, adopted, '' }
end

-- Of an enqueue's mark: window_ms, nil if there is none; digest of the payload, request tag.
local function mark_of(text)
  if text == '' then
    return nil
  end
  local window_ms, size, from = string.match(text, '^(%d+):(%d+):()')
  return window_ms, string.sub(text, from + size), string.sub(text, from, from + size - 1)
end

-- The entry of a task that is stored in this very call.
local function enter(entry, task_id, region, epoch, digest, request_tag, left_ms)
  redis.call('HSET', entry, 'id', task_id, 'rg', region, 'ep', epoch, 'cf', '1', 'dg', digest,
    'rq', request_tag)
  redis.call('HDEL', entry, 'fr')
  redis.call('PEXPIRE', entry, int(left_ms))
end
