-- The ready lists of a claim. A list: key, queue, place, hint, lease_ms, patience_ms; what it held
-- at first (size), how many tickets this call has added, those that were looked at and how many of
-- them are used up (at), how many tasks were taken from it.
local function a_list(c, facts)
  facts.size, facts.added, facts.tickets, facts.at, facts.taken = 0, 0, {}, 0, 0
  facts.lease_until = int(c.now_ms + facts.lease_ms)
  c.places[facts.queue .. ' ' .. facts.place] = facts
  return facts
end

-- How much they hold; in most calls all suspects' lists are empty, which takes one look.
local function measure(lists)
  local keys = {}
  for i, list in ipairs(lists) do
    keys[i] = list.key
  end
  if redis.call('EXISTS', unpack(keys)) > 0 then
    for _, list in ipairs(lists) do
      list.size = redis.call('LLEN', list.key)
    end
  end
end

-- Those of the caller's queues: first all of high priority, last all of low. Keys and
-- arguments of the first queue begin at `first_key` and `first_arg`, ordered as claim's header is.
local function lists_of(c, queues, first_key, keys_each, first_arg, args_each)
  local lists = {}
  for rank = 0, 2 do
    for i, queue in ipairs(queues) do
      local k, a = first_key + (i - 1) * keys_each, first_arg + (i - 1) * args_each
      lists[#lists + 1] = a_list(c, { key = KEYS[k + rank], hint = KEYS[k + 3],
        others = KEYS[k + 4], suspects = KEYS[k + 5], queue = queue, place = tostring(rank),
        lease_ms = tonumber(ARGV[a + 1]), patience_ms = tonumber(ARGV[a + 2]) })
    end
  end
  measure(lists)
  return lists
end

-- The lists of suspects beside those of a claim: there whatever the claim is for, since their hint
-- is passed on and tickets may be taken to them. The caller has touched them.
local function suspect_lists(c, lists)
  local found = {}
  for i, list in ipairs(lists) do
    local place = 's' .. list.place
    found[i] = a_list(c, { key = list_at(c.prefix, list.queue, place), place = place,
      hint = list.suspects, queue = list.queue, lease_ms = list.lease_ms,
      patience_ms = list.patience_ms })
  end
  measure(found)
  return found
end

-- A ticket made before suspects had lists of their own: it is taken there.
local function is_misplaced(t, list)
  return is_suspect(t.place) and not is_suspect(list.place)
end
