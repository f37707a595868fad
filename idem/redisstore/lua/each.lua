
-- An error of one key, such as a value that is no entry, leaves the transitions of the others as they are.
local answers = {}
for i, name in ipairs(KEYS) do
  key, ask = name, ARGV[i]
  local ok, answer = pcall(transition)
  if not ok and type(answer) ~= 'table' then answer = {err = answer} end
  answers[i] = answer
end
return answers
