-- Arguments: owner, fingerprint ('' for none), source, lease in ms, retention in ms, redrive, take over ('1' or ''), skew in ms
local function transition()
  local owner, fingerprint, source = arg(1), arg(2), arg(3)
  local lease, retention, redrive = tonumber(arg(4)), tonumber(arg(5)), tonumber(arg(6))
  local takeOver, skew = arg(7) == '1', tonumber(arg(8))

  local function hold(version, attempts, createdAt)
    local fields = {'status', 'STARTED', 'version', version, 'owner', owner, 'source', source,
      'leaseUntil', now + lease, 'attempts', attempts, 'createdAt', createdAt}
    if fingerprint ~= '' then
      fields[#fields + 1] = 'requestFingerprint'
      fields[#fields + 1] = fingerprint
    end
    save(now + lease, retention, skew, fields)
  end

  local seen, flat = read()
  if not seen.status then
    if #flat > 0 then return reply('foreign', 0, flat) end
    hold(now, 1, now) -- rule 2
    return {'new', now} -- the caller knows the entry
  end

  -- take is a steal, a re-claim or a redrive. A final key that is claimed again loses its result, failure and fingerprint.
  local function take()
    local started = seen.status == 'STARTED'
    redis.call('HDEL', key, 'retryAt')
    if not started then
      redis.call('HDEL', key, 'responsePayload', 'resultOmitted', 'failureCode', 'failureMessage', 'failureAt', 'requestFingerprint')
    end
    hold(tonumber(seen.version) + 1, started and tonumber(seen.attempts) + 1 or 1, started and seen.createdAt or now)
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
end
