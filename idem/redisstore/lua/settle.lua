-- ARGV: operation, fencing token, owner, retention in ms, lease or delay in ms, skew in ms, refund ('1' or ''), result, omitted size,
-- failure ('1' or ''), its code, its message
local op, version, owner = ARGV[1], ARGV[2], ARGV[3]
local retention, span, skew = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local refund, result, omitted = ARGV[7] == '1', ARGV[8], ARGV[9]
local final = {complete = 'COMPLETED', fail = 'FAILED'}

local seen, flat = read()
local mine = seen.version == version and seen.owner == owner
local started, released = seen.status == 'STARTED', seen.retryAt

if not (mine and started and not released) then -- rule 3
  if mine and ((op == 'release' and started and released) or (final[op] and seen.status == final[op])) then
    return {'done'} -- rule 5: it was applied before
  end
  return reply('fenced', 0, flat)
end

local function fail()
  if ARGV[10] == '1' then
    redis.call('HSET', key, 'failureCode', ARGV[11], 'failureMessage', ARGV[12], 'failureAt', int(now))
  end
end

if op == 'extend' then
  if now + span < tonumber(seen.leaseUntil) then return {'done'} end -- a delayed extend must not shorten the lease
  redis.call('HSET', key, 'leaseUntil', int(now + span), 'updatedAt', int(now))
  expire(now + span, retention, skew)
  return {'done'}
end

redis.call('HSET', key, 'updatedAt', int(now))
if op == 'release' then
  redis.call('HSET', key, 'retryAt', int(now + span))
  if refund then redis.call('HINCRBY', key, 'attempts', -1) end
  fail()
  expire(now + span, retention, skew)
  return {'done'}
end
redis.call('HSET', key, 'status', final[op])
if op == 'complete' then
  redis.call('HDEL', key, 'failureCode', 'failureMessage', 'failureAt')
  if result ~= '' then redis.call('HSET', key, 'responsePayload', result) end
  if omitted ~= '0' then redis.call('HSET', key, 'resultOmitted', omitted) end
else
  fail()
end
expire(now, retention, skew)
return {'done'}
