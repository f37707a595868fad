package kafka_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// outage is a network that can fail: new connections are refused, and open ones are reset.
type outage struct {
	dial func(ctx context.Context, network, host string) (net.Conn, error)
	mu   sync.Mutex
	down bool
	open []net.Conn
}

func (o *outage) Dial(ctx context.Context, network, host string) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	c, err := o.dial(ctx, network, host)
	if err == nil {
		o.open = append(o.open, c)
	}
	return c, err
}

func (o *outage) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
	for _, c := range o.open {
		_ = c.Close()
	}
	o.open = nil
}

// All brokers are gone for a time that is shorter or longer than the session timeout. The consumer survives
// it, logs at a bounded rate, and calls no handler twice.
func TestBrokersAreGoneForAWhile(t *testing.T) {
	for _, gone := range []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute} {
		t.Run(gone.String(), func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				o := &outage{dial: f.network.DialContext}
				f.handler = func(context.Context, kafka.Record) ([]byte, error) {
					<-time.After(time.Second)
					return nil, nil
				}
				f.produce(0, 200, 0, 1)
				c := f.start(func(cfg *consumer.Config) { cfg.Options = []kgo.Opt{kgo.Dialer(o.Dial)} })
				f.until("it works", func() bool { n, _ := f.called(); return n > 50 })
				o.set(true)
				<-time.After(gone)
				o.set(false)
				f.produce(200, 10, 0, 1)
				f.until("all offsets are committed",
					func() bool { return f.offsets()[0] == 210 && f.offsets()[1] == 210 })
				c.mustEnd()
				if !f.calledOnce(420) {
					records, calls := f.called()
					f.Errorf("%d calls for %d records; want one for each of 420", calls, records)
				}
				if n, most := f.logged("msg=")-f.logged("msg=record"), 10+
					int(gone/(10*time.Second)); n > most {
					f.Errorf("%d lines beside those of records; want at most %d", n, most)
				}
			})
		})
	}
}
