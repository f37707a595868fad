-- Arguments: fencing token
local function transition()
  local seen, flat = read()
  if #flat == 0 then return {'absent'} end
  if seen.version ~= arg(1) then return reply('fenced', 0, flat) end
  redis.call('DEL', key)
  return {'done'}
end
