-- ARGV: fencing token
local seen, flat = read()
if #flat == 0 then return {'absent'} end
if seen.version ~= ARGV[1] then return reply('fenced', 0, flat) end
redis.call('DEL', key)
return {'done'}
