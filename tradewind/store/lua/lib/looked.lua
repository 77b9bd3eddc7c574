-- The tickets that may be redeemed, read anew only where this call has added some. What remains is
-- reckoned: the list may be emptied, and is not touched again then.
local function looked_at(list, want)
  if not list.left then
    list.left = list.size + list.added
    if list.added > 0 and want > 0 then
      local upto = #list.tickets + list.added
      list.tickets = {}
      for i, text in ipairs(redis.call('LRANGE', list.key, 0, upto - 1)) do
        list.tickets[i] = parse(text)
      end
    end
  end
  return list.tickets
end
