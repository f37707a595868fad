package main

import (
	"io"
	"time"

	"github.com/idemsk/idemsk/internal/emf"
)

// metrics writes every batch as one line of CloudWatch's embedded metric format.
type metrics struct {
	out      io.Writer
	function string
	now      func() time.Time
}

func (m *metrics) report(d *delivery) {
	now := m.now()
	emf.Write(m.out, m.function, now,
		emf.Duration("OutboxAge", d.age(now)), emf.Duration("OutboxDuration", now.Sub(d.begun)),
		emf.Count("OutboxItems", d.records),
		emf.Count("OutboxPublished", d.result.Published), emf.Count("OutboxRejected", d.result.Rejected),
		emf.Count("OutboxParked", d.result.Parked+d.parked), emf.Count("OutboxFailed", d.failed))
}

// age returns the time since the oldest of the items was committed.
func (d *delivery) age(now time.Time) time.Duration {
	var oldest time.Duration
	for i := range d.items {
		oldest = max(oldest, now.Sub(d.items[i].CreatedAt))
	}
	return oldest
}
