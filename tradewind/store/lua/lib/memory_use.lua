-- How full this server is, as it counts for maxmemory: what replicas and the log still have to be
-- sent does not. Some 50 us, so ask only where the answer is worth it. A login that may not ask is
-- told that there is no limit.
local function memory_use()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then
    return { used = 0, most = 0, policy = '' }
  end
  local function number(name)
    return tonumber(string.match(info, '\n' .. name .. ':(%d+)') or 0)
  end
  return { used = number('used_memory') - number('mem_not_counted_for_evict'),
    most = number('maxmemory'), policy = string.match(info, '\nmaxmemory_policy:([%w-]+)') or '' }
end
