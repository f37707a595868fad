local COMPLETE, FAIL, RELEASE, EXTEND = 1, 2, 3, 4
local ends = {[RELEASE] = RELEASED, [COMPLETE] = COMPLETED, [FAIL] = FAILED}

local function transition()
  local op, token, retention, span, refund, flags, omitted, owner, at = unpack('>BI6I6I6BBi4Bc0', ask)
  local given = sub(ask, at) -- the failure without its time, or the result

  local value = redis.call('GET', key)
  if not value then return reply(FENCED, 0, '') end
  local seen = entry(value)
  local mine = seen.token == token and seen.owner == owner
  if not (mine and seen.kind == STARTED) then -- rule 3
    if mine and seen.kind == ends[op] then return pack('B', DONE) end -- rule 5: it was applied before
    return reply(FENCED, 0, value, seen)
  end

  if op == EXTEND then
    local lease = now + span
    if lease >= seen.till then -- a delayed extend must not shorten the lease
      save(STARTED, seen.flags, token, seen.attempts, lease, retention, pack('>I6', lease) .. sub(value, seen.rest))
    end
    return pack('B', DONE)
  end

  local known, failure = sub(value, seen.rest, seen.tail - 1), sub(value, seen.tail)
  local kept = band(seen.flags, FINGERPRINT + CREATED)
  if op == COMPLETE then
    local size = ''
    if band(flags, OMITTED) > 0 then size = pack('>i4', omitted) end
    save(COMPLETED, kept + flags, token, seen.attempts, now, retention, known .. size .. given)
    return pack('B', DONE)
  end
  if band(flags, FAILURE) > 0 then failure = pack('>I6', now) .. given end
  if failure ~= '' then kept = kept + FAILURE end
  if op == FAIL then
    save(FAILED, kept, token, seen.attempts, now, retention, known .. failure)
  else
    save(RELEASED, kept, token, seen.attempts - refund, now + span, retention, pack('>I6', now + span) .. known .. failure)
  end
  return pack('B', DONE)
end
