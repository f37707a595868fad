local function transition()
  local lease, retention, redrive, takeOver, flags, at = unpack('>I6I6I6BB', ask)
  local who = sub(ask, at) -- owner, fingerprint and source, as in an entry

  -- Rule 2. The caller knows the entry.
  local expiry = math.ceil((now + lease + retention) / 1000)
  local fresh = pack('>BBI6I5I6I2I6', STARTED, flags, now, expiry, now, 1, now + lease) .. who
  local value = redis.call('SET', key, fresh, 'NX', 'GET', 'PXAT', expiry * 1000 + $SKEW)
  if not value then return pack('>BI6', NEW, now) end

  local seen = entry(value)
  local owner, fingerprint
  owner, at = unpack('>Bc0', who)
  if band(flags, FINGERPRINT) > 0 then fingerprint = unpack('>c32', who, at) end

  -- take is a steal, a re-claim or a redrive. A final key that is claimed again loses its result, failure and fingerprint.
  local started, outcome = seen.kind <= RELEASED, CLAIMED
  local function take()
    local attempts, created, tail = 1, now, ''
    if started then
      attempts, created = math.min(seen.attempts + 1, $ATTEMPTS), seen.created
      if seen.fingerprint and not fingerprint then -- the request is still known
        flags, who = flags + FINGERPRINT, sub(who, 1, at - 1) .. seen.fingerprint .. sub(who, at)
      end
      if band(seen.flags, FAILURE) > 0 then flags, tail = flags + FAILURE, sub(value, seen.tail) end
      if seen.kind == STARTED then outcome = STOLEN end
    end
    return reply(outcome, 0, save(STARTED, flags + CREATED, seen.token + 1, attempts, now + lease, retention,
      pack('>I6I6', now + lease, created) .. who .. tail))
  end

  if seen.kind == STARTED and seen.owner == owner and owner ~= '' then
    return reply(CLAIMED, 0, value) -- rule 5: its own claim, whose reply was lost
  elseif not started and now >= seen.expiry * 1000 + $SKEW then
    return take() -- rule 4: retention is over
  elseif fingerprint and seen.fingerprint and fingerprint ~= seen.fingerprint then
    return reply(MISMATCH, 0, value, seen) -- rule 6
  elseif seen.kind == FAILED and seen.token == redrive then
    return take() -- rule 10
  elseif not started then
    return reply(DONE, 0, value, seen)
  end

  -- Rule 7. The delay of a release has no skew, because it protects nothing.
  local wait = math.max(0, seen.till + (seen.kind == STARTED and $SKEW or 0) - now)
  if wait > 0 then return reply(INFLIGHT, wait, value) end
  if seen.kind == STARTED and takeOver == 0 then return reply(LEASEOVER, 0, value) end
  return take()
end
