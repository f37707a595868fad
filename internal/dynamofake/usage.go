package dynamofake

import (
	"maps"
	"sync"
)

// Usage is what a server was asked for since it was made or [Server.ResetUsage] was called.
type Usage struct {
	// Requests counts the requests of each operation that reached the server, whatever came of them:
	// faults, errors and lost replies count too. Operations that are not known share "Unknown".
	Requests map[string]int
	// WriteUnits and ReadUnits are the capacity units that DynamoDB would have billed: 1 for each KB
	// written, 0.5 (consistent 1) for each 4 KB read, rounded up per request, twice that in transactions. A
	// failed condition is billed by the size of the stored item.
	WriteUnits, ReadUnits float64
}

// usage is the Usage under way.
type usage struct {
	mu    sync.Mutex
	total Usage
}

// count adds a request. A made-up operation is not counted by its name, of which there may be any number.
func (u *usage) count(operation string) {
	if operationNamed(operation) == nil {
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

// Usage returns a copy of what the server was asked for so far.
func (s *Server) Usage() Usage {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	copied := s.usage.total
	copied.Requests = maps.Clone(copied.Requests)
	return copied
}

// ResetUsage starts the counts again at zero.
func (s *Server) ResetUsage() {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.total = Usage{}
}
