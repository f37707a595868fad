-- A script makes one transition of each of its keys: key is the one in turn, and ask its argument. entry.go has the form of an
-- entry, of an argument and of an answer; numbers are big-endian.
local key, ask
local call, pack, unpack, sub, band, ceil = redis.call, struct.pack, struct.unpack, string.sub, bit.band, math.ceil

local STARTED, RELEASED, COMPLETED, FAILED = 0xC1, 0xC2, 0xC3, 0xC4
local FINGERPRINT, CREATED, FAILURE, OMITTED = 1, 2, 4, 8
local ABSENT, DONE, FENCED, NEW, CLAIMED, STOLEN, INFLIGHT, LEASEOVER, MISMATCH = 0, 1, 2, 3, 4, 5, 6, 7, 8

local function millis(t) return t[1] * 1000 + math.floor(t[2] / 1000) end
local now = $NOW

-- entry returns the parts of a value that the rules read, in this order: kind, flags, token, attempts, expiry, the end of the
-- lease or of the delay of a release, owner, and three places: of the creation (or what follows), of the fingerprint (likewise),
-- and of what is behind the source: failure, omitted size and result.
local function entry(value)
  local kind, flags, token, expiry, _, attempts, at = unpack('>BBI6I5I6I2', value)
  if kind < STARTED or kind > FAILED or flags >= 2 * OMITTED then error('no entry') end
  local till, owner, fingerprint
  if kind <= RELEASED then till, at = unpack('>I6', value, at) end
  local rest = at
  if band(flags, CREATED) > 0 then at = at + 6 end
  owner, fingerprint = unpack('>Bc0', value, at)
  at = fingerprint
  if band(flags, FINGERPRINT) > 0 then at = at + 32 end
  at = at + 2 + unpack('>I2', value, at)
  if at > #value + 1 then error('no entry') end
  return kind, flags, token, attempts, expiry, till, owner, rest, fingerprint, at
end

-- save writes an entry, and both expiries of rule 9: the one that the rules read, in whole seconds, rounded up; and the time at
-- which the server deletes the key, which is later by the skew. rest is what follows the attempts.
local function save(kind, flags, token, attempts, over, retention, rest)
  local at = ceil((over + retention) / 1000)
  local value = pack('>BBI6I5I6I2', kind, flags, token, at, now, attempts) .. rest
  call('SET', key, value, 'PXAT', at * 1000 + $SKEW)
  return value
end

local done = pack('B', DONE)

-- reply returns the outcome, the wait of a claim in ms, and the value. It replaces a large result, which begins at tail in the
-- value of a COMPLETED key, by its size; the caller reads it separately.
local function reply(what, wait, value, kind, tail)
  local large = 0
  if kind == COMPLETED and #value - tail >= $LARGE then value, large = sub(value, 1, tail - 1), #value - tail + 1 end
  return pack('>BI6I4', what, wait, large) .. value
end
