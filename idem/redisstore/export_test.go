package redisstore

// SetClock makes a Lua expression the clock that decides.
func (s *Store) SetClock(expression string) { s.scripts = newScripts(expression) }

// ServerClock is the clock that decides otherwise.
const ServerClock = serverClock

// Name returns the name under which a key is kept.
func (s *Store) Name(key string) string { return s.name(key) }

// CheckServer judges a server by its INFO.
func CheckServer(info string) error { return judgeServer(parseInfo(info)) }
