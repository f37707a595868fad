package redisstore

// SetClock replaces the time of the scripts by a Lua expression.
func (s *Store) SetClock(expression string) {
	s.scripts = newScripts(expression, ceilMillis(s.skew))
}

// ServerClock is the default Lua expression of the time.
const ServerClock = serverClock

// Name returns the name of a key at the server.
func (s *Store) Name(key string) string { return s.name(key) }

// What tests look for in stored values, and the bounds of requests.
const (
	KindStarted    = kindStarted
	KindCompleted  = kindCompleted
	AttemptTimeout = attemptTimeout
	MaxAttempts    = maxAttempts
	MaxBatchSize   = maxBatchSize
)
