-- What a completed task that was deduplicated leaves behind: `dd` in its record is KEY:UNTIL, and
-- until then, the end of its dedup window, no copy under that key is run. KEY stands for the
-- payload, too, so that nothing is answered with the result of another one. Returns key of the
-- mark, and ms that are left.
local function done_mark(prefix, dd, now_ms)
  local colon = string.find(dd, ':', 1, true)
  return prefix .. 'done:' .. string.sub(dd, 1, colon - 1), string.sub(dd, colon + 1) - now_ms
end
