-- Where memory is tight a finished task leaves its payload, which nothing runs any more, and its
-- result, too, if that is longer than the payload was: finishing must not fill the server further.
-- Readers are told by po and ro. What is this short stays: it takes no more than the lease did.
local SHORT = 64

-- A number in groups of 7 bits, lowest first, at a place of a text; and where what follows begins.
local function number_at(text, at)
  local value, unit = 0, 1
  repeat
    local group = string.byte(text, at) or 0
    value, at, unit = value + (group % 128) * unit, at + 1, unit * 128
  until group < 128
  return value, at
end

local function as_number(value)
  local groups = ''
  while value > 127 do
    groups = groups .. string.char(value % 128 + 128)
    value = math.floor(value / 128)
  end
  return groups .. string.char(value)
end

-- What follows the name in a TaskSpec, without its payload: its field 3, which comes next.
local function rest_of(spec)
  if string.byte(spec) ~= 0x1A then
    return spec
  end
  local size, at = number_at(spec, 2)
  return '\26\0' .. string.sub(spec, at + size)
end

-- A packed spec without its payload. The first byte says what stands in it: see store/layout.py.
local function without_payload(packed)
  local first = string.byte(packed) or 0
  if first < 0xD0 or first >= 0xF0 then
    return packed
  end
  local mark, flags = string.sub(packed, 1, 1), first % 16
  local alone, payload = math.floor(flags / 2) % 2 == 1, math.floor(flags / 4) % 2 == 1
  if payload and alone then
    return mark
  elseif alone then
    return mark .. rest_of(string.sub(packed, 2))
  end
  local size, at = number_at(packed, 2)
  if payload then
    return mark .. '\0' .. string.sub(packed, at + size)
  end
  local rest = rest_of(string.sub(packed, at, at + size - 1))
  return mark .. as_number(#rest) .. rest .. string.sub(packed, at + size)
end

-- Returns the result to keep.
local function spare(record, result)
  local packed = redis.call('HGET', record, 'p') or ''
  local left = #packed > SHORT and without_payload(packed) or packed
  local freed = #packed - #left
  if freed > SHORT then
    redis.call('HSET', record, 'p', left, 'po', '1')
  end
  if #result > math.max(freed, SHORT) then
    redis.call('HSET', record, 'ro', '1')
    return ''
  end
  return result
end
