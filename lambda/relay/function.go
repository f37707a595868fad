package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// margin is the part of an invocation's time in which no request is begun, in addition to the timeout of
// requests in progress. Closing a Kafka client that gets no answer takes up to a second of it.
const margin = 2 * time.Second

// function is the relay as a Lambda handler.
type function struct {
	relay    *dynamooutbox.Relay
	producer *relay.Producer
	timeout  time.Duration // of the events that the producer sends together
	logger   *slog.Logger
	metrics  *metrics
}

// newFunction creates the function from the environment variables. Metrics go to stdout, logs to stderr. It
// returns all errors of the configuration together. It opens no connection.
func newFunction(ctx context.Context, vars *app.Vars, stdout, stderr io.Writer) (*function, error) {
	cfg := readConfig(vars)
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: cfg.logLevel}))
	vars.WarnUnread(ctx, logger)
	if err := vars.Err(); err != nil {
		return nil, err
	}
	awsCfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: cfg.table})
	if err != nil {
		return nil, err
	}
	cfg.kafka.AWS = awsCfg
	options, err := cfg.kafka.Options()
	if err != nil {
		return nil, err
	}
	producer, err := relay.New(relay.Config{Options: append(options, kgo.ClientID("idemsk-relay")),
		Timeout: cfg.timeout})
	if err != nil {
		return nil, err
	}
	r, err := dynamooutbox.NewRelay(box, dynamostore.NewClient(awsCfg), producer,
		dynamooutbox.RelayConfig{Logger: logger})
	if err != nil {
		producer.Close()
		return nil, err
	}
	return &function{
		relay: r, producer: producer, timeout: cfg.timeout, logger: logger,
		metrics: &metrics{out: stdout, function: cfg.function, now: time.Now},
	}, nil
}

// errNoImage means that the stream's records do not contain the table's items.
var errNoImage = errors.New("the stream's records have no new image: the table's stream must be of type NEW_IMAGE or NEW_AND_OLD_IMAGES")

// handle sends a batch. It reports each record whose item must be retried. Lambda delivers the batch again
// from the first reported record on, so later events that were sent are sent again. A batch that is not from
// an outbox's table fails as a whole.
func (f *function) handle(ctx context.Context, batch events.DynamoDBEvent) (events.DynamoDBEventResponse,
	error) {
	ctx, cancel, err := f.bounded(ctx)
	if err != nil {
		return events.DynamoDBEventResponse{}, err
	}
	defer cancel()
	d := delivery{function: f, begun: time.Now()}
	if err := d.decode(ctx, batch.Records); err != nil {
		f.logger.ErrorContext(ctx, "the batch is not from the stream of an outbox's table", "records",
			len(batch.Records), "error", err)
		return events.DynamoDBEventResponse{}, err
	}
	d.result = f.relay.Send(ctx, d.items)
	response := d.answer(ctx)
	f.metrics.report(&d)
	return response, nil
}

// bounded returns a context that ends early enough for requests in progress to finish.
func (f *function) bounded(ctx context.Context) (context.Context, context.CancelFunc, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}, nil
	}
	end := deadline.Add(-f.timeout - margin)
	if left := time.Until(end); left <= 0 {
		return nil, nil, fmt.Errorf("there are %v left, and sending may take %v: give the function a longer timeout, or set IDEMSK_KAFKA_TIMEOUT",
			time.Until(deadline).Round(time.Millisecond), f.timeout+margin)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	return ctx, cancel, nil
}

// delivery is one batch.
type delivery struct {
	*function
	begun   time.Time
	records int
	items   []dynamooutbox.Item
	numbers []string // sequence numbers of the items
	broken  []string // sequence numbers of the items that could not be parked
	parked  int      // items that were parked because they could not be decoded
	result  dynamooutbox.Result
	failed  int
}

// decode decodes the records, and parks those that contain no valid item.
func (d *delivery) decode(ctx context.Context, records []events.DynamoDBEventRecord) error {
	for i := range records {
		r := &records[i]
		if !isOurs(r) {
			continue
		}
		d.records++
		number := r.Change.SequenceNumber
		if len(r.Change.NewImage) == 0 {
			return fmt.Errorf("record %s: %w", number, errNoImage)
		}
		it, err := dynamooutbox.Decode(attributes(r.Change.NewImage))
		if err == nil {
			d.items, d.numbers = append(d.items, it), append(d.numbers, number)
			continue
		}
		if it.Aggregate == "" || it.ID == "" {
			return fmt.Errorf("record %s: is this the stream of an outbox's table? %w", number, err)
		}
		if err := d.relay.Reject(ctx, it, err); err != nil {
			d.logger.ErrorContext(ctx, "an item can't be parked", "sequenceNumber", number, "error", err)
			d.broken = append(d.broken, number)
			continue
		}
		d.parked++
	}
	return nil
}

func (d *delivery) answer(ctx context.Context) events.DynamoDBEventResponse {
	failures := []events.DynamoDBBatchItemFailure{}
	for _, number := range d.broken {
		failures = append(failures, events.DynamoDBBatchItemFailure{ItemIdentifier: number})
	}
	var why error
	for i, err := range d.result.Errs {
		if err != nil {
			why = errors.Join(why, err)
			failures = append(failures, events.DynamoDBBatchItemFailure{ItemIdentifier: d.numbers[i]})
		}
	}
	if d.failed = len(failures); d.failed > 0 {
		first, _, _ := strings.Cut(fmt.Sprint(why), "\n")
		d.logger.WarnContext(ctx, "items of the outbox were not sent and will be retried", "items", d.failed,
			"of", d.records, "first", first)
	}
	return events.DynamoDBEventResponse{BatchItemFailures: failures}
}
