-- Adds to what is used of one allowance, and says what is left of it. What is used comes back evenly,
-- by the clock of this server; a key whose allowance is whole again expires.
-- KEYS[1]: the allowance. ARGV: what passed (less than nothing: given back), microseconds in which one
-- comes back, how many there are at once.
-- Answer: thousandths of requests that are left, less than nothing where too many passed.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local passed, each, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local used = 0
local state = redis.call('HMGET', KEYS[1], 'used', 'at', 'each')
if state[1] then
  -- At the pace that held until now: another number does not change what came back before.
  used = math.max(0, state[1] - math.max(0, now - state[2]) / state[3])
end
-- Nobody waits longer than twice for everything.
used = math.min(math.max(0, used + passed), 2 * burst)
if used > 0 then
  redis.call('HSET', KEYS[1], 'used', string.format('%.12g', used), 'at', string.format('%.0f', now), 'each', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], math.ceil(used * each / 1000) + 1000)
else
  redis.call('DEL', KEYS[1])
end
return math.floor((burst - used) * 1000 + 0.001)
