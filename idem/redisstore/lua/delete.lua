local function transition()
  local value = redis.call('GET', key)
  if not value then return pack('B', ABSENT) end
  local seen = entry(value)
  if seen.token ~= unpack('>I6', ask) then return reply(FENCED, 0, value, seen) end
  redis.call('DEL', key)
  return pack('B', DONE)
end
