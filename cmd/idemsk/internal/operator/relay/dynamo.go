package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/relay/streamrelay"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// streamPoll is the pause after a read of the stream that returned nothing.
const streamPoll = 200 * time.Millisecond

// followDynamoDB relays an outbox in DynamoDB, or creates its table.
func (r *invocation) followDynamoDB(ctx context.Context, s command.Streams) error {
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: r.dynamo})
	if err != nil {
		return &command.UsageError{Err: err}
	}
	cfg, err := r.Load(ctx)
	if err != nil {
		return err
	}
	db := dynamostore.NewClient(cfg)
	if r.migrate {
		if err := box.CreateTable(ctx, db); err != nil {
			return err
		}
		s.Sayf("idemsk relay: the table %s exists\n", term.Escape(r.dynamo))
		return nil
	}
	producer, err := r.producer(ctx)
	if err != nil {
		return err
	}
	defer producer.Close()
	logger := slog.New(slog.NewTextHandler(s.Err, nil))
	work, err := dynamooutbox.NewRelay(box, db, producer,
		dynamooutbox.RelayConfig{MaxAttempts: r.cfg.MaxAttempts, Logger: logger})
	if err != nil {
		return &command.UsageError{Err: err}
	}
	streams := dynamodbstreams.NewFromConfig(cfg,
		func(o *dynamodbstreams.Options) { o.HTTPClient = flags.BoundedHTTP(cfg) })
	published, parked := 0, 0
	err = streamrelay.Run(ctx, streamrelay.Config{
		Table: r.dynamo, Tables: db, Streams: streams, Relay: work, Logger: logger, Poll: streamPoll,
		UntilEmpty: r.untilEmpty,
		Report: func(sent dynamooutbox.Result) {
			published, parked = published+sent.Published, parked+sent.Parked
		},
	})
	s.Sayf("idemsk relay: %d published, %d parked\n", published, parked)
	return err
}
