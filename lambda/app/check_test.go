//go:build postgres || redis

package app

import (
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
)

func TestBatchingCanBeTurnedOff(t *testing.T) {
	store := memstore.New(memstore.Config{BatchSize: 25})
	for plain, want := range map[bool]bool{false: true, true: false} {
		base := &Base{Config: Config{Plain: plain}}
		_, batches := base.batching(store).(idem.Batcher)
		equal(t, "it takes batches", batches, want)
	}
}
