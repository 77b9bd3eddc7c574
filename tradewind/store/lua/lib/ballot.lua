-- The epoch that bars a change of this one here: promised to another change, and no lower. Nil if
-- none does. So an epoch is promised to one change only.
local function barring(control, epoch, change_id)
  local v = redis.call('HMGET', control, 'pr', 'pi')
  local promised = tonumber(v[1] or 0)
  if tonumber(epoch) < promised or (tonumber(epoch) == promised and v[2] ~= change_id) then
    return v[1]
  end
  return nil
end
