package local

import (
	"context"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// redrive sends dead letters back to their topic: those with the IDs, or all if there are none.
func (b *buttons) redrive(ctx context.Context, ids []string) (string, error) {
	r := b.run
	cluster, err := redrive.Dial(ctx, redrive.Cluster{Brokers: r.brokers, Options: r.o.Kafka})
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	return redrive.Chosen(ctx, redrive.Options{
		Source: redrive.Queue(r.store.sqs, r.store.Queue, redrive.MinVisibility), Destination: cluster,
		Reader: cluster,
	}, ids)
}
