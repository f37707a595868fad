-- Arguments: operation, fencing token, owner, retention in ms, lease or delay in ms, skew in ms, refund ('1' or ''), result, omitted size,
-- failure ('1' or ''), its code, its message
local function transition()
  local op, version, owner = arg(1), arg(2), arg(3)
  local retention, span, skew = tonumber(arg(4)), tonumber(arg(5)), tonumber(arg(6))
  local refund, result, omitted = arg(7) == '1', arg(8), arg(9)
  local final = {complete = 'COMPLETED', fail = 'FAILED'}

  local seen = redis.call('HMGET', key, 'status', 'version', 'owner', 'retryAt', 'leaseUntil', 'failureAt')
  local status, released, leaseUntil, failed = seen[1], seen[4], tonumber(seen[5]), seen[6]
  local mine, started = seen[2] == version and seen[3] == owner, status == 'STARTED'

  if not (mine and started and not released) then -- rule 3
    if mine and ((op == 'release' and started and released) or (final[op] and status == final[op])) then
      return {'done'} -- rule 5: it was applied before
    end
    return reply('fenced', 0)
  end

  local fields = {}
  local function set(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end

  local function fail()
    if arg(10) == '1' then
      set('failureCode', arg(11))
      set('failureMessage', arg(12))
      set('failureAt', now)
    end
  end

  if op == 'extend' then
    if now + span < leaseUntil then return {'done'} end -- a delayed extend must not shorten the lease
    set('leaseUntil', now + span)
    save(now + span, retention, skew, fields)
    return {'done'}
  end
  if op == 'release' then
    set('retryAt', now + span)
    if refund then redis.call('HINCRBY', key, 'attempts', -1) end
    fail()
    save(now + span, retention, skew, fields)
    return {'done'}
  end
  set('status', final[op])
  if op == 'complete' then
    if failed then redis.call('HDEL', key, 'failureCode', 'failureMessage', 'failureAt') end
    if result ~= '' then set('responsePayload', result) end
    if omitted ~= '0' then set('resultOmitted', omitted) end
  else
    fail()
  end
  save(now, retention, skew, fields)
  return {'done'}
end
