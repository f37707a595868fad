local COMPLETE, FAIL, RELEASE, EXTEND = 1, 2, 3, 4
local ends = {[RELEASE] = RELEASED, [COMPLETE] = COMPLETED, [FAIL] = FAILED}

local function transition()
  local op, token, retention, span, refund, flags, omitted, owner, at = unpack('>BI6I6I6BBi4Bc0', ask)
  local value = call('GET', key)
  if not value then return reply(FENCED, 0, '') end
  local kind, seenFlags, current, attempts, _, till, holder, rest, _, tail = entry(value)
  local mine = current == token and holder == owner
  if not (mine and kind == STARTED) then -- rule 3
    if mine and kind == ends[op] then return done end -- rule 5: it was applied before
    return reply(FENCED, 0, value, kind, tail)
  end

  if op == EXTEND then
    local lease = now + span
    if lease >= till then -- a delayed extend must not shorten the lease
      save(STARTED, seenFlags, token, attempts, lease, retention, pack('>I6', lease) .. sub(value, rest))
    end
    return done
  end

  local kept = band(seenFlags, FINGERPRINT + CREATED)
  local known = sub(value, rest, tail - 1)
  if op == COMPLETE then
    if flags > 0 then known = known .. pack('>i4', omitted) end
    save(COMPLETED, kept + flags, token, attempts, now, retention, known .. sub(ask, at))
    return done
  end
  local failure = sub(value, tail)
  if flags > 0 then failure = pack('>I6', now) .. sub(ask, at) end
  if failure ~= '' then kept = kept + FAILURE end
  if op == FAIL then
    save(FAILED, kept, token, attempts, now, retention, known .. failure)
  else
    save(RELEASED, kept, token, attempts - refund, now + span, retention, pack('>I6', now + span) .. known .. failure)
  end
  return done
end
