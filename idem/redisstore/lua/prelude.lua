-- A script makes one transition of each of its keys. key is the one in turn, and arg(n) its nth argument.
local key, first
local function arg(n) return ARGV[first + n] end

local function millis(t) return t[1] * 1000 + math.floor(t[2] / 1000) end
local now = $NOW

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
    if flat[i] == 'responsePayload' and #flat[i + 1] > $LARGE then flat[i], flat[i + 1] = 'largeResult', #flat[i + 1] end
  end
  return {what, wait, flat}
end

-- save writes fields, and both expiries of rule 9: expiryTimestamp, which the rules read, in whole seconds, rounded up; and
-- the time at which the server deletes the key, which is later by the skew.
local function save(over, retention, skew, fields)
  local at = math.ceil((over + retention) / 1000)
  redis.call('HSET', key, 'updatedAt', now, 'expiryTimestamp', at, unpack(fields))
  redis.call('PEXPIREAT', key, at * 1000 + skew)
end
