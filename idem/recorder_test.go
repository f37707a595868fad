package idem_test

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
type recorder struct {
	mu     sync.Mutex
	rand   *rand.Rand
	events []*laneEvent
}

// between returns a number of milliseconds.
func (r *recorder) between(from, to int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(from+r.rand.IntN(to-from+1)) * time.Millisecond
}

// writeTrace writes a trace into a folder, unless that is empty: the lanes and each event in a line of JSON.
func writeTrace(t *testing.T, dir string, lanes map[string][]string, events []*laneEvent) {
	t.Helper()
	if dir == "" {
		return
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	err := out.Encode(lanes)
	for _, e := range events {
		if err == nil {
			err = out.Encode(e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, "lanes-*.jsonl")
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
