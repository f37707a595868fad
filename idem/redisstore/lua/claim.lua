local fresh = pack('>BI6', NEW, now)

local function transition()
  local lease, retention, redrive, takeOver, flags, at = unpack('>I6I6I6BB', ask)
  local who = sub(ask, at) -- owner, fingerprint and source, as in an entry

  -- Rule 2. The caller knows the entry.
  local gone = ceil((now + lease + retention) / 1000)
  local value = call('SET', key, pack('>BBI6I5I6I2I6', STARTED, flags, now, gone, now, 1, now + lease) .. who,
    'NX', 'GET', 'PXAT', gone * 1000 + $SKEW)
  if not value then return fresh end

  local kind, seenFlags, token, attempts, expiry, till, holder, rest, print, tail = entry(value)
  local owner, place = unpack('>Bc0', who)
  local fingerprint, before
  if band(flags, FINGERPRINT) > 0 then fingerprint = sub(who, place, place + 31) end
  if band(seenFlags, FINGERPRINT) > 0 then before = sub(value, print, print + 31) end
  local started = kind <= RELEASED

  -- take is a steal, a re-claim or a redrive. A final key that is claimed again loses its result, failure and fingerprint.
  local function take()
    local created, failure = now, ''
    if started then
      created = band(seenFlags, CREATED) > 0 and unpack('>I6', value, rest) or token
      if before and not fingerprint then -- the request is still known
        flags, who = flags + FINGERPRINT, sub(who, 1, place - 1) .. before .. sub(who, place)
      end
      if band(seenFlags, FAILURE) > 0 then flags, failure = flags + FAILURE, sub(value, tail) end
    end
    return reply(kind == STARTED and STOLEN or CLAIMED, 0, save(STARTED, flags + CREATED, token + 1,
      started and math.min(attempts + 1, $ATTEMPTS) or 1, now + lease, retention,
      pack('>I6I6', now + lease, created) .. who .. failure))
  end

  if kind == STARTED and holder == owner and owner ~= '' then
    return reply(CLAIMED, 0, value) -- rule 5: its own claim, whose reply was lost
  elseif not started and now >= expiry * 1000 + $SKEW then
    return take() -- rule 4: retention is over
  elseif fingerprint and before and fingerprint ~= before then
    return reply(MISMATCH, 0, value, kind, tail) -- rule 6
  elseif kind == FAILED and token == redrive then
    return take() -- rule 10
  elseif not started then
    return reply(DONE, 0, value, kind, tail)
  end

  -- Rule 7. The delay of a release has no skew, because it protects nothing.
  local wait = math.max(0, till + (kind == STARTED and $SKEW or 0) - now)
  if wait > 0 then return reply(INFLIGHT, wait, value) end
  if kind == STARTED and takeOver == 0 then return reply(LEASEOVER, 0, value) end
  return take()
end
