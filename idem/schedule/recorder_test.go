package schedule_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

// recorder has the events of a trace, and the random numbers of what it records.
type recorder[E any] struct {
	mu     sync.Mutex
	rand   *rand.Rand
	events []E
}

func (r *recorder[E]) chance(p float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.Float64() < p
}

func (r *recorder[E]) number(from, to int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from + r.rand.IntN(to-from+1)
}

// between returns a number of milliseconds.
func (r *recorder[E]) between(from, to int) time.Duration {
	return time.Duration(r.number(from, to)) * time.Millisecond
}

// writeTrace writes a trace into a folder, unless that is empty: the header and each event in a line of JSON.
func writeTrace[E any](t *testing.T, dir, pattern string, header any, events []E) {
	t.Helper()
	if dir == "" {
		return
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	err := out.Encode(header)
	for _, e := range events {
		if err == nil {
			err = out.Encode(e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, pattern)
	if err == nil {
		_, err = f.Write(text.Bytes())
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
