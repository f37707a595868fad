local key = KEYS[1]

local function millis(t) return t[1] * 1000 + math.floor(t[2] / 1000) end
local now = $NOW

-- int formats a number without an exponent.
local function int(n) return string.format('%.0f', n) end

local function read()
  local flat = redis.call('HGETALL', key)
  local seen = {}
  for i = 1, #flat, 2 do seen[flat[i]] = flat[i + 1] end
  return seen, flat
end

-- reply returns the outcome, the wait of a claim in ms, and the current entry. It replaces a large result by its size; the
-- caller reads it separately.
local function reply(what, wait, flat)
  flat = flat or redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    if flat[i] == 'responsePayload' and #flat[i + 1] > $LARGE then flat[i], flat[i + 1] = 'largeResult', int(#flat[i + 1]) end
  end
  return {what, int(wait), flat}
end

-- expire sets both expiries of rule 9: expiryTimestamp, which the rules read, in whole seconds, rounded up; and the time at
-- which the server deletes the key, which is later by the skew.
local function expire(over, retention, skew)
  local at = math.ceil((over + retention) / 1000)
  redis.call('HSET', key, 'expiryTimestamp', int(at))
  redis.call('PEXPIREAT', key, int(at * 1000 + skew))
end
