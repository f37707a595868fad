-- A script makes one transition of each of its keys: key is the one in turn, and ask its argument. entry.go has the form of an
-- entry, of an argument and of an answer; numbers are big-endian.
local key, ask
local pack, unpack, sub, band = struct.pack, struct.unpack, string.sub, bit.band

local STARTED, RELEASED, COMPLETED, FAILED = 0xC1, 0xC2, 0xC3, 0xC4
local FINGERPRINT, CREATED, FAILURE, OMITTED = 1, 2, 4, 8
local ABSENT, DONE, FENCED, NEW, CLAIMED, STOLEN, INFLIGHT, LEASEOVER, MISMATCH = 0, 1, 2, 3, 4, 5, 6, 7, 8

local function millis(t) return t[1] * 1000 + math.floor(t[2] / 1000) end
local now = $NOW

-- entry returns the parts of a value that the rules read. till is the end of the lease, or of the delay of a release; rest is
-- the place behind it, and tail the one of failure, omitted size and result.
local function entry(value)
  local e, at = {}
  e.kind, e.flags, e.token, e.expiry, e.updated, e.attempts, at = unpack('>BBI6I5I6I2', value)
  if e.kind < STARTED or e.kind > FAILED then error('no entry') end
  if e.kind <= RELEASED then e.till, at = unpack('>I6', value, at) end
  e.rest, e.created = at, e.token
  if band(e.flags, CREATED) > 0 then e.created, at = unpack('>I6', value, at) end
  e.owner, at = unpack('>Bc0', value, at)
  if band(e.flags, FINGERPRINT) > 0 then e.fingerprint, at = unpack('>c32', value, at) end
  e.tail = at + 2 + unpack('>I2', value, at) -- behind the source
  return e
end

-- save writes the entry, and both expiries of rule 9: the one that the rules read, in whole seconds, rounded up; and the time
-- at which the server deletes the key, which is later by the skew.
local function save(kind, flags, token, attempts, over, retention, rest)
  local at = math.ceil((over + retention) / 1000)
  local value = pack('>BBI6I5I6I2', kind, flags, token, at, now, attempts) .. rest
  redis.call('SET', key, value, 'PXAT', at * 1000 + $SKEW)
  return value
end

-- reply returns the outcome, the wait of a claim in ms, and the entry. It replaces a large result by its size; the caller reads
-- it separately.
local function reply(what, wait, value, e)
  local large = 0
  if e and e.kind == COMPLETED and #value > $LARGE then
    local at = e.tail
    if band(e.flags, OMITTED) > 0 then at = at + 4 end
    if #value - at >= $LARGE then value, large = sub(value, 1, at - 1), #value - at + 1 end
  end
  return pack('>BI6I4', what, wait, large) .. value
end
