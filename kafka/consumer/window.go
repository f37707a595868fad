package consumer

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// window is the records of a partition from the first that is not settled to the last that was read. Its
// watermark, the offset of the first unsettled record, is what may be committed. The offsets of a partition
// increase, but not by 1: compaction and transactions leave gaps. A window is not safe for concurrent use.
type window struct {
	entries []entry // ordered by offset; the first is not settled
	bytes   int64   // of the entries
	mark    kgo.EpochOffset
	marked  bool // mark is set: a record was settled
	last    int64
	since   time.Time // when the first entry became the first
}

// entry is a record of a window. Its data are not kept here.
type entry struct {
	offset  int64
	epoch   int32 // of the leader that wrote it
	bytes   int32
	settled bool
}

// newWindow returns a window that begins after the offset last, or before all offsets if last is -1.
func newWindow(last int64) window { return window{last: last} }

// add appends a record, whose offset must be higher than those before it. A record may be settled already.
func (w *window) add(e entry, now time.Time) {
	if len(w.entries) == 0 {
		w.since = now
	}
	w.entries = append(w.entries, e)
	w.bytes += int64(e.bytes)
	w.last = e.offset
	if e.settled {
		w.advance(now)
	}
}

// settle marks a record as settled. It does nothing if the window does not have the record.
func (w *window) settle(offset int64, now time.Time) {
	i, ok := slices.BinarySearchFunc(w.entries, offset,
		func(e entry, offset int64) int { return int(e.offset - offset) })
	if !ok || w.entries[i].settled {
		return
	}
	w.entries[i].settled = true
	if i == 0 {
		w.advance(now)
	}
}

// advance removes the settled records at the beginning.
func (w *window) advance(now time.Time) {
	n := 0
	for ; n < len(w.entries) && w.entries[n].settled; n++ {
		w.bytes -= int64(w.entries[n].bytes)
	}
	if n == 0 {
		return
	}
	done := w.entries[n-1]
	w.mark, w.marked = kgo.EpochOffset{Epoch: done.epoch, Offset: done.offset + 1}, true
	w.entries = w.entries[n:] // append moves the rest to the front of a new array when this one is full
	w.since = now
}

// watermark returns the offset to commit; false if no record was settled.
func (w *window) watermark() (kgo.EpochOffset, bool) { return w.mark, w.marked }

// open returns how many records are in the window.
func (w *window) open() int { return len(w.entries) }

// first returns the offset of the first record that is not settled, or of the next record.
func (w *window) first() int64 {
	if len(w.entries) > 0 {
		return w.entries[0].offset
	}
	return w.last + 1
}
