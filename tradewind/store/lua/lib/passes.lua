-- In which order a claim serves its lists: first those whose head has waited longer than its
-- queue's patience, as far as that holds, the oldest head first; then all, high before normal
-- before low. So nothing waits much longer than that behind higher priorities. Without patience
-- the order is strict.
local function in_order(lists, now_ms)
  local passes = {}
  for rank, list in ipairs(lists) do
    local head = list.patience_ms and list.size > 0 and redis.call('LINDEX', list.key, 0)
    local since_ms = head and parse(head).turn.since_ms
    if since_ms and now_ms - since_ms > list.patience_ms then
      passes[#passes + 1] = { list = list, rank = rank, head_ms = since_ms,
        before_ms = now_ms - list.patience_ms }
    end
  end
  table.sort(passes, function(a, b)
    return a.head_ms < b.head_ms or (a.head_ms == b.head_ms and a.rank < b.rank)
  end)
  for _, list in ipairs(lists) do
    passes[#passes + 1] = { list = list, before_ms = math.huge }
  end
  return passes
end

-- Looks at the heads of the lists, pass by pass, until `want` tasks to run or `most` tickets were
-- seen: tickets that cannot be run must not hide those behind them. False: moving.
local function look_ahead(c, passes, want, most)
  for _, pass in ipairs(passes) do
    local list, done = pass.list, pass.list.size == 0
    while want > 0 and most > 0 and not done do
      local looked = #list.tickets
      local found = redis.call('LRANGE', list.key, looked, looked + math.min(want, most) - 1)
      done = #found == 0
      for _, text in ipairs(found) do
        local ticket = parse(text)
        if ticket.turn.since_ms >= pass.before_ms then
          done = true
          break
        end
        local t = look(c, ticket.id, list.queue)
        if not t then
          return false
        end
        local taken = t.fate == 'run' and is_good(t, ticket)
        want = want - ((taken and not is_misplaced(t, list)) and 1 or 0)
        list.tickets[#list.tickets + 1], most = ticket, most - 1
      end
      done = done or #list.tickets >= list.size
    end
  end
  return true
end
