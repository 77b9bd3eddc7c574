-- What is due and belongs to the caller's lists may be claimed in this very call. False: moving.
local function look_at_due(c, due_now)
  for _, task in ipairs(due_now) do
    task.list = task.queue and c.places[task.queue .. ' ' .. task.place]
    if task.list and not look(c, task.id, task.queue) then
      return false
    end
  end
  return true
end

-- They are ready now, at the end of their lists.
local function add_promoted(c, due_now)
  for _, task in ipairs(due_now) do
    if task.list and task.revision then
      c.seen[task.id].state, c.seen[task.id].revision = 'PENDING', task.revision
      task.list.added = task.list.added + 1
    end
  end
end
