-- A ticket of a ready list, see lib/ready.lua: in line since `since_ms`, ready since `ready_ms`.
local function parse(ticket)
  local id, revision, since_ms, ready_ms = string.match(ticket, '^([^:]*):(%d+):(%d+):?(%d*)$')
  return { text = ticket, id = id, revision = revision, since_ms = tonumber(since_ms),
    ready_ms = ready_ms ~= '' and ready_ms or since_ms }
end
