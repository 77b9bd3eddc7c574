-- Tasks that may not start any more. In a record `ex` is since when, ms, and `xk` for how long the
-- record is then kept. ZSET expiry holds those that wait (PENDING, SCHEDULED, FAILED), no others:
-- one that runs is left alone, and put back by whatever makes it wait again.
local function is_over(expires_ms, now_ms)
  return expires_ms and (tonumber(expires_ms) or math.huge) <= now_ms
end

local function may_expire(expiry, record, task_id)
  local expires_ms = redis.call('HGET', record, 'ex')
  if expires_ms and tonumber(expires_ms) then
    redis.call('ZADD', expiry, expires_ms, task_id)
  end
end

-- `gone` left the set. Last, and at once: it may empty the key.
local function drop_expiry(expiry, gone)
  if #gone > 0 then
    redis.call('ZREM', expiry, unpack(gone))
  end
end
