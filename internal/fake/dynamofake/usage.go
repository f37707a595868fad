package dynamofake

import (
	"maps"
	"sync"
)

// Usage counts the requests and the capacity units since the server was created or [Server.ResetUsage] was
// called.
type Usage struct {
	// Requests counts the requests that reached the server, by operation, including faults, errors and lost
	// replies. Unknown operations are counted as "Unknown".
	Requests map[string]int
	// WriteUnits and ReadUnits are the capacity units that DynamoDB would have billed: 1 for each KB
	// written, 0.5 (consistent 1) for each 4 KB read, rounded up per request, twice that in transactions. A
	// failed condition is billed by the size of the stored item.
	WriteUnits, ReadUnits float64
}

// usage is the current Usage.
type usage struct {
	mu    sync.Mutex
	total Usage
}

// count adds a request. Unknown operations are counted together, so that their number is bounded.
func (u *usage) count(operation string) {
	if operations[operation] == nil {
		operation = "Unknown"
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.total.Requests == nil {
		u.total.Requests = make(map[string]int)
	}
	u.total.Requests[operation]++
}

func (u *usage) wrote(units float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.total.WriteUnits += units
}

func (u *usage) read(units float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.total.ReadUnits += units
}

// Usage returns a copy of the current counts.
func (s *Server) Usage() Usage {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	copied := s.usage.total
	copied.Requests = maps.Clone(copied.Requests)
	return copied
}

// ResetUsage sets the counts to zero.
func (s *Server) ResetUsage() {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.total = Usage{}
}
