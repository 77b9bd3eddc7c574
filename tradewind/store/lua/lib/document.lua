-- The control document that is held here: its stamp, "" if there is none, and its text, "" if the
-- reader knows it.
local function held_document(control, known)
  local v = redis.call('HMGET', control, 'st', 'dc')
  local stamp = v[1] or ''
  return stamp, stamp ~= known and v[2] or ''
end
