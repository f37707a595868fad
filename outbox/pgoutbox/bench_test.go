//go:build rest

package pgoutbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// BenchmarkRelay measures how fast a backlog is sent, with PostgreSQL, Kafka and the relay on one host.
func BenchmarkRelay(b *testing.B) {
	for _, relays := range []int{1, 2} {
		b.Run(fmt.Sprint("relays=", relays), func(b *testing.B) {
			pool := newPool(b, postgres.URL())
			o, table := newOutbox(b, pool, pgoutbox.Config{})
			topic := newTopic(b, 6)
			backlog(b, o, topic, b.N)
			b.ResetTimer()
			for range relays {
				run(b, pool, o, newProducer(b, relay.Config{}), pgoutbox.RelayConfig{})
			}
			eventually(b, pool, 0, `SELECT count(*) FROM (SELECT FROM `+table+
				` WHERE published_at IS NULL LIMIT 1) AS x`)
			b.StopTimer()
			newReader(b, topic).ids(b, b.N)
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "events/s")
			if b.N >= enough && rate < leastRate {
				b.Errorf("%.0f events/s, want %d", rate, leastRate)
			}
		})
	}
}

// The minimum rate, checked if there are enough events to measure.
const (
	enough    = 10_000
	leastRate = 5000 // events/s
	worstP99  = 200 * time.Millisecond
)

const eventBytes = 256

// backlog publishes n events of a thousand keys.
func backlog(b *testing.B, o *pgoutbox.Outbox, topic string, n int) {
	b.Helper()
	pool := newPool(b, postgres.URL())
	value := random(eventBytes)
	for from := 0; from < n; from += 1000 {
		var events []outbox.Event
		for i := from; i < min(n, from+1000); i++ {
			events = append(events, outbox.Event{Topic: topic, Key: fmt.Append(nil, "account-", i%1000),
				Value: value})
		}
		publish(b, pool, o, events...)
	}
}

// BenchmarkCommitToPublish measures the time from the commit of an event to its record in Kafka, on an idle
// relay.
func BenchmarkCommitToPublish(b *testing.B) {
	pool := newPool(b, postgres.URL())
	o, _ := newOutbox(b, pool, pgoutbox.Config{})
	topic := newTopic(b, 6)
	r := newReader(b, topic)
	run(b, pool, o, newProducer(b, relay.Config{}), pgoutbox.RelayConfig{})
	publish(b, pool, o, outbox.Event{Topic: topic, Key: []byte("warm")})
	r.ids(b, 1)
	var took []time.Duration
	idle := time.NewTicker(30 * time.Millisecond)
	defer idle.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-idle.C // the relay is idle again
		publish(b, pool, o, outbox.Event{Topic: topic, Key: fmt.Append(nil, i)})
		committed := time.Now()
		r.until(b, "the event", func() bool { return len(r.all) == i+2 })
		took = append(took, time.Since(committed))
	}
	slices.Sort(took)
	p99 := took[(len(took)-1)*99/100]
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
	if p99 > worstP99 {
		b.Errorf("the 99th percentile is %v, want at most %v", p99, worstP99)
	}
}
