-- How many lists of a queue's suspects hold tickets, all three touched; nil: one has left the node.
local function suspects_of(prefix, queue)
  local answer = redis.pcall('EXISTS', list_at(prefix, queue, 's0'), list_at(prefix, queue, 's1'),
    list_at(prefix, queue, 's2'))
  return not has_left(answer) and answer or nil
end

-- Of the queues in `args` from index `first` on: queue -> whether suspects of it have tickets in
-- lists. nil: one of these lists has left this node.
local function suspects_among(prefix, args, first)
  local found = {}
  for i = first, #args do
    local number = suspects_of(prefix, args[i])
    if not number then
      return nil
    end
    found[args[i]] = number > 0
  end
  return found
end
