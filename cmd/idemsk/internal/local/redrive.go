package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka"
)

// chosen is a source of the letters with some IDs.
type chosen struct {
	redrive.Source

	ids []string
}

// Next implements redrive.Source.
func (c *chosen) Next(ctx context.Context) (*redrive.Message, error) {
	for {
		m, err := c.Source.Next(ctx)
		if err != nil || m.Err == nil && slices.Contains(c.ids, m.Letter.ID()) {
			return m, err
		}
	}
}

// redrive sends dead letters back to their topic: those with the IDs, or all if there are none. A letter that fails again meanwhile stays.
func (b *buttons) redrive(ctx context.Context, ids []string) (string, error) {
	r := b.run
	if len(ids) == 0 {
		for _, body := range r.store.queues.Bodies(r.store.Queue) {
			if l, err := kafka.ParseDeadLetter([]byte(body)); err == nil {
				ids = append(ids, l.ID())
			}
		}
	}
	cluster, err := redrive.Dial(ctx, redrive.Cluster{Brokers: r.brokers, Options: r.o.Kafka})
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n, failures := 0, []error(nil)
	_, err = redrive.Run(ctx, redrive.Options{
		Source: &chosen{redrive.Queue(r.store.sqs, r.store.Queue, redrive.MinVisibility), ids}, Destination: cluster, Reader: cluster,
	}, func(result redrive.Result) {
		if result.Outcome == redrive.Redriven {
			n++
		}
		if result.Error != "" {
			failures = append(failures, fmt.Errorf("%s: %s", result.Source, result.Error))
		}
	})
	return term.Plural(n, "dead letter", "dead letters") + " redriven.", errors.Join(append(failures, err)...)
}
