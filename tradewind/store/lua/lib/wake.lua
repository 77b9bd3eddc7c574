-- A hint for one blocked worker that a queue of this partition has ready work. At most one at a
-- time: whoever takes it claims, and claim sets it again while work remains. The TTL clears
-- hints of queues that nobody serves; sweeps set them anew.
local function wake(marker)
  if redis.call('EXISTS', marker) == 0 then
    redis.call('RPUSH', marker, '1')
    redis.call('PEXPIRE', marker, 60000)
  end
end
