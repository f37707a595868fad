local key = KEYS[1]

local function millis(t) return t[1] * 1000 + math.floor(t[2] / 1000) end
local now = $NOW

-- Lua writes large numbers as 1.7e+12 unless told not to.
local function int(n) return string.format('%.0f', n) end

local function read()
  local flat = redis.call('HGETALL', key)
  local seen = {}
  for i = 1, #flat, 2 do seen[flat[i]] = flat[i + 1] end
  return seen, flat
end

-- reply answers with what came of it, how long a claim has to wait, and the record as it is now. Of a large result it tells the size: who
-- wants that reads it by itself.
local function reply(what, wait, flat)
  flat = flat or redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    if flat[i] == 'responsePayload' and #flat[i + 1] > $LARGE then flat[i], flat[i + 1] = 'largeResult', int(#flat[i + 1]) end
  end
  return {what, int(wait), flat}
end

-- expire sets both expiries of rule 9: the one that the rules look at, in whole seconds, rounded up, and the one at which the
-- server deletes the key. That one is later by the skew, as contenders count it.
local function expire(over, retention, skew)
  local at = math.ceil((over + retention) / 1000)
  redis.call('HSET', key, 'expiryTimestamp', int(at))
  redis.call('PEXPIREAT', key, int(at * 1000 + skew))
end
