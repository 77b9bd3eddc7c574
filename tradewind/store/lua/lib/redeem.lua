local function displace(c, t, ticket, list)
  local there = c.places[list.queue .. ' ' .. t.place]
  redis.call('RPUSH', there.key, ticket.text)
  count(c.counts, 'p' .. t.place .. ':' .. list.queue, 1)
  there.added = there.added + 1
end

-- What becomes of one ticket that was looked at. True if that is a claim, which the reply gets.
local function redeem(c, ticket, t, list, reply)
  if not is_good(t, ticket) then
    return false
  elseif t.fate == 'end' then
    end_waiting(c, t, list)
  elseif is_misplaced(t, list) then
    displace(c, t, ticket, list)
  elseif t.fate == 'run' then
    return take(c, t, ticket, list, reply)
  else
    park(c, list.queue, t, ticket)
  end
  return false
end

-- Redeems the tickets of one pass that were looked at, until `want` claims are made.
-- Notes in list.left what remains; returns what is still wanted.
local function redeem_pass(c, pass, want, reply)
  local list = pass.list
  local tickets, used = looked_at(list, want), 0
  while want > 0 and list.at < #tickets do
    local ticket = tickets[list.at + 1]
    local t = c.seen[ticket.id]
    if not t or ticket.turn.since_ms >= pass.before_ms then
      break
    end
    list.at, used = list.at + 1, used + 1
    if redeem(c, ticket, t, list, reply) then
      want = want - 1
    end
  end
  if used > 0 then
    redis.call('LPOP', list.key, used)
    list.left = list.left - used
  end
  return want
end

-- The passes in order; what was taken is leased and not ready any more.
local function redeem_all(c, passes, lists, want, reply)
  for _, pass in ipairs(passes) do
    want = redeem_pass(c, pass, want, reply)
  end
  for _, list in ipairs(lists) do
    if list.taken > 0 then
      add_ready(c.sums, list.queue, list.place, -list.taken)
      add(c.sums, 'r:' .. list.queue, list.taken)
    end
  end
end
