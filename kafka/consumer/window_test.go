package consumer

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// naive is a window as its definition says it, without regard to time and memory.
type naive struct {
	entries []entry
	settled map[int64]bool
}

func (n *naive) first() int {
	for i, e := range n.entries {
		if !n.settled[e.offset] {
			return i
		}
	}
	return len(n.entries)
}

// The watermark, the count and the bytes are those of the naive model after every step, for offsets with gaps
// and records that settle in any order, more than once, or before they were read.
func TestWindowAgreesWithTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, model, next := newWindow(-1), naive{settled: make(map[int64]bool)}, int64(0)
		now := time.Unix(0, 0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				next += rapid.Int64Range(1, 5).Draw(t, "gap")
				e := entry{offset: next, epoch: rapid.Int32Range(0, 9).Draw(t, "epoch"),
					bytes:   rapid.Int32Range(0, 99).Draw(t, "bytes"),
					settled: rapid.Bool().Draw(t, "control record")}
				w.add(e, now)
				model.entries = append(model.entries, e)
				if e.settled {
					model.settled[next] = true
				}
			},
			"settle": func(t *rapid.T) {
				offset := rapid.Int64Range(0, next+1).Draw(t, "offset")
				w.settle(offset, now)
				for _, e := range model.entries {
					if e.offset == offset {
						model.settled[offset] = true
					}
				}
			},
			"": func(t *rapid.T) {
				first := model.first()
				var bytes int64
				for _, e := range model.entries[first:] {
					bytes += int64(e.bytes)
				}
				if w.open() != len(model.entries)-first || w.bytes != bytes {
					t.Fatalf("%d records of %d bytes; want %d of %d", w.open(), w.bytes,
						len(model.entries)-first, bytes)
				}
				mark, marked := w.watermark()
				if marked != (first > 0) {
					t.Fatalf("there is a watermark: %v; %d records are settled", marked, first)
				}
				if marked {
					last := model.entries[first-1]
					if want := (kgo.EpochOffset{Epoch: last.epoch, Offset: last.offset + 1}); mark != want {
						t.Fatalf("watermark %v; want %v", mark, want)
					}
				}
			},
		})
	})
}

// The memory of a window does not grow with the number of records that pass through it.
func TestWindowReusesItsMemory(t *testing.T) {
	w, now := newWindow(-1), time.Unix(0, 0)
	const depth = 100
	for offset := range int64(100_000) {
		w.add(entry{offset: offset}, now)
		if offset >= depth {
			w.settle(offset-depth, now)
		}
		if c := cap(w.entries); c > 8*depth {
			t.Fatalf("room for %d records after %d; the window has %d", c, offset, w.open())
		}
	}
}
