-- What an import is answered that may not be stored, or is here; nil: it may come. `who` it must
-- be for: deployment and region. `refused` of a live task: the region's own courier has not heard
-- yet that it had left.
local function not_coming(identity, memory, record, who, epoch)
  local found = redis.call('HMGET', identity, 'deployment', 'region')
  if found[1] ~= who[1] or found[2] ~= who[2] then
    return { 'foreign', found[1] or '', found[2] or '' }
  end
  local came, refused = remembered(memory)
  if came >= epoch then
    return { 'known' }
  end
  if refused >= epoch then
    return { 'refused' }
  end
  local v = read(record, 's', 'ep')
  if v[1] and tonumber(v[2]) >= epoch then
    return { v[1] == 'REFUSED' and 'refused' or 'known' }
  end
  if v[1] and v[1] ~= 'FORWARDED' and v[1] ~= 'REFUSED' then
    return { 'refused' }
  end
  return nil
end
