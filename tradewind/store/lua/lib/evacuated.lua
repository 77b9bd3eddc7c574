-- What an evacuation has done in a partition: counted anew with each order. Never empty, so that it
-- may be written again.
local function of_order(evacuated, order_ms)
  if redis.call('HGET', evacuated, 'at') ~= order_ms then
    redis.call('HSET', evacuated, 'at', order_ms, 'moved', '0')
  end
end
