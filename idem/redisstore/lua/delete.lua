local function transition()
  local value = call('GET', key)
  if not value then return pack('B', ABSENT) end
  local kind, _, token, _, _, _, _, _, _, tail = entry(value)
  if token ~= unpack('>I6', ask) then return reply(FENCED, 0, value, kind, tail) end
  call('DEL', key)
  return done
end
