-- What is left of a record that is no task any more: its mark, which the caller has set, its epoch
-- and revision, and where it went. The key is never empty: it could not be written again.
local function remains(record)
  local kept = { s = true, ep = true, mt = true, wt = true, rv = true }
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if not kept[field] then
      redis.call('HDEL', record, field)
    end
  end
end
