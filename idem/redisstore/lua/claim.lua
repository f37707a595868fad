-- ARGV: owner, fingerprint ('' for none), source, lease in ms, retention in ms, redrive, take over ('1' or ''), skew in ms
local owner, fingerprint, source = ARGV[1], ARGV[2], ARGV[3]
local lease, retention, redrive = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local takeOver, skew = ARGV[7] == '1', tonumber(ARGV[8])

local function hold(version, attempts, createdAt)
  redis.call('HSET', key, 'status', 'STARTED', 'version', int(version), 'owner', owner, 'source', source,
    'leaseUntil', int(now + lease), 'attempts', int(attempts), 'createdAt', createdAt, 'updatedAt', int(now))
  if fingerprint ~= '' then redis.call('HSET', key, 'requestFingerprint', fingerprint) end
  expire(now + lease, retention, skew)
end

local seen, flat = read()
if not seen.status then
  if #flat > 0 then return reply('foreign', 0, flat) end
  hold(now, 1, int(now)) -- rule 2
  return reply('claimed', 0)
end

-- take is a steal, a re-claim or a redrive. A final key that is claimed again loses its result, failure and fingerprint.
local function take()
  local started = seen.status == 'STARTED'
  redis.call('HDEL', key, 'retryAt')
  if not started then
    redis.call('HDEL', key, 'responsePayload', 'resultOmitted', 'failureCode', 'failureMessage', 'failureAt', 'requestFingerprint')
  end
  hold(tonumber(seen.version) + 1, started and tonumber(seen.attempts) + 1 or 1, started and seen.createdAt or int(now))
  return reply(started and not seen.retryAt and 'stolen' or 'claimed', 0)
end

local started, before = seen.status == 'STARTED', seen.requestFingerprint or ''
if started and seen.owner == owner and owner ~= '' and not seen.retryAt then
  return reply('claimed', 0, flat) -- rule 5: its own claim, whose reply was lost
elseif not started and now >= tonumber(seen.expiryTimestamp) * 1000 + skew then
  return take() -- rule 4: retention is over
elseif fingerprint ~= before and fingerprint ~= '' and before ~= '' then
  return reply('mismatch', 0, flat) -- rule 6
elseif seen.status == 'FAILED' and tonumber(seen.version) == redrive then
  return take() -- rule 10
elseif seen.status == 'COMPLETED' then
  return reply('completed', 0, flat)
elseif seen.status == 'FAILED' then
  return reply('failed', 0, flat)
elseif not started then
  return reply('foreign', 0, flat)
end

-- Rule 7. The delay of a release has no skew, because it protects nothing.
local wait = math.max(0, seen.retryAt and tonumber(seen.retryAt) - now or tonumber(seen.leaseUntil) + skew - now)
if wait > 0 then return reply('inflight', wait, flat) end
if not seen.retryAt and not takeOver then return reply('leaseover', 0, flat) end
return take()
