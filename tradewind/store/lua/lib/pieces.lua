-- One call for many members: Lua's stack holds no more than a piece of them (8,000, luaconf.h).
local function in_pieces(command, key, members)
  for first = 1, #members, 4000 do
    local last = math.min(first + 3999, #members)
    redis.call(command, key, unpack(members, first, last))
  end
end

-- Touch before write, see lib/here: many keys that are learnt, with one call for a piece of them.
local function all_here(members)
  for first = 1, #members, 4000 do
    local last = math.min(first + 3999, #members)
    if has_left(redis.pcall('EXISTS', unpack(members, first, last))) then
      return false
    end
  end
  return true
end
