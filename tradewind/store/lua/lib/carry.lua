-- The courier lease of a partition, taken or extended for `lease_ms`; "" asks for none. Returns 1
-- if it is the worker's now, else 0.
local function carry(courier, worker_id, lease_ms)
  local holder = lease_ms ~= '' and redis.call('GET', courier)
  if lease_ms == '' or (holder and holder ~= worker_id) then
    return 0
  end
  redis.call('SET', courier, worker_id, 'PX', lease_ms)
  return 1
end
