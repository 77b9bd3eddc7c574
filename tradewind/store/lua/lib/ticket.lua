-- A ticket of a ready list, see lib/ready.lua. Its turn: revision, in line since `since_ms`, ready
-- since `ready_ms`. Tickets that came together have all of that in common, so it is read once.
local turns = {}

local function parse(ticket)
  local colon = string.find(ticket, ':', 1, true)
  local rest = string.sub(ticket, colon + 1)
  local turn = turns[rest]
  if not turn then
    local revision, since_ms, ready_ms = string.match(rest, '^(%d+):(%d+):?(%d*)$')
    turn = { revision = revision, since_ms = tonumber(since_ms),
      ready_ms = ready_ms ~= '' and ready_ms or since_ms }
    turns[rest] = turn
  end
  return { text = ticket, id = string.sub(ticket, 1, colon - 1), turn = turn }
end
