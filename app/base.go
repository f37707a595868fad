package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
)

// Build returns a handler. It records errors of its own environment variables in base.Vars, which are
// reported together with all others. Its own error is reported only if the variables are valid.
type Build func(ctx context.Context, base *Base) (kafka.Handler, error)

// Handler returns a Build that returns a handler which needs nothing of a Base.
func Handler(h kafka.Handler) Build {
	return func(context.Context, *Base) (kafka.Handler, error) { return h, nil }
}

// Base has the configuration, the logger and the clients from which a handler can be built.
type Base struct {
	Config Config
	Vars   *Vars
	Logger *slog.Logger // adds to each line what its context says; see observe.LogHandler
	// SharesMemory is set by a Build that starts other processes in the container of a consumer process. The
	// garbage collector of the consumer process then keeps Go's defaults.
	SharesMemory bool

	awsCfg  func(ctx context.Context) (aws.Config, error)
	opened  []func() // called by Close, in the order in which they were registered
	passed  *Store   // the configured store; nil if it is built in
	topic   *DeadLetterTopic
	bucket  *DeadLetterBucket
	schema  *Schemas
	tracers []Tracer
}

// NewBase returns a Base with a configuration that was read from vars with these options. Logs go to stderr.
func NewBase(vars *Vars, cfg Config, stderr io.Writer, options ...Option) *Base {
	added := collect(options)
	if len(added.observers) > 0 {
		cfg.Engine.Observer = added.observers
	}
	for _, t := range added.tracers {
		cfg.Records.Batch = t.Batch
		if polls, ok := t.(PollTracer); ok {
			cfg.Records.Poll = polls.Poll
		}
	}
	return &Base{
		Config: cfg, Vars: vars, Logger: newLogger(stderr, cfg.LogLevel, cfg.LogAttrs), awsCfg: loadOnce(),
		passed: added.store(cfg.Store), topic: added.topic, bucket: added.bucket, schema: added.schema,
		tracers: added.tracers,
	}
}

// OnClose registers a function that Close calls.
func (b *Base) OnClose(f func()) { b.opened = append(b.opened, f) }

// Close closes what was opened.
func (b *Base) Close() {
	for _, f := range slices.Backward(b.opened) {
		f()
	}
	b.opened = nil
}

// AWS returns the SDK's configuration, loaded once. Endpoints come from AWS_ENDPOINT_URL and the related
// variables.
func (b *Base) AWS(ctx context.Context) (aws.Config, error) { return b.awsCfg(ctx) }

// Parts are what a host runs.
type Parts struct {
	Store   store.Store
	Engine  *idem.Engine
	Handler kafka.Handler
	Records kafka.Config // with the dead letters and the logger
}

// Parts builds the handler and opens the store and the dead letters. It returns all errors of the variables
// together. If it returns an error, everything is closed.
func (b *Base) Parts(ctx context.Context, build Build) (p Parts, err error) {
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	var convert func(context.Context, *kafka.Record) error
	if b.Config.Schemas.Registry != "" && b.Vars.Err() == nil { // else all wrong variables are reported below
		if convert, err = b.schema.Open(ctx, b); err != nil {
			b.Vars.WarnUnread(ctx, b.Logger)
			return Parts{}, err
		}
	}
	if p.Handler, err = build(ctx, b); isBulk(p.Handler) {
		b.readCalls()
	}
	b.Vars.WarnUnread(ctx, b.Logger)
	if wrong := b.Vars.Err(); wrong != nil {
		return Parts{}, wrong
	}
	if err != nil {
		return Parts{}, fmt.Errorf("building the handler: %w", err)
	}
	if each, ok := p.Handler.(kafka.HandlerFunc); ok {
		for _, t := range slices.Backward(b.tracers) {
			each = t.Handler(each)
		}
		p.Handler = each
	}
	if convert != nil {
		p.Handler = kafka.Converted(p.Handler, convert)
	}
	if p.Store, err = b.OpenStore(ctx); err != nil {
		return Parts{}, err
	}
	if p.Engine, err = idem.New(p.Store, b.Config.Engine); err != nil {
		return Parts{}, err
	}
	p.Records = b.Config.Records
	p.Records.Logger = b.Logger
	p.Records.DeadLetters, err = b.deadLetters(ctx)
	return p, err
}

// CallRecords returns the maximum number of records in a call of a handler that takes many: IDEMSK_CALL_RECORDS, or
// a default. A Build calls it that returns different handlers.
func (b *Base) CallRecords(def int) int {
	return b.Vars.Int("IDEMSK_CALL_RECORDS", cmp.Or(b.Config.Records.CallRecords, def), 1, maxCallRecords)
}

// readCalls reads the maximum number of records in a call. Unless the commit window is set, it has room for all calls.
func (b *Base) readCalls() {
	records, engine := &b.Config.Records, &b.Config.Engine
	records.CallRecords = b.CallRecords(maxCallRecords)
	if records.CallRecords < maxCallRecords && b.Vars.String("IDEMSK_COMMIT_WINDOW", "") == "" {
		all := records.CallRecords * max(1, records.Calls)
		engine.CommitWindow = min(max(engine.CommitWindow, all), store.MaxCommitWindow)
	}
}

// isBulk reports whether a handler takes many records in a call.
func isBulk(h kafka.Handler) bool {
	switch h.(type) {
	case kafka.BulkHandler, kafka.BulkAttempts:
		return true
	}
	return false
}

// OpenStore opens the configured store, which Close closes. It sends no request to DynamoDB.
func (b *Base) OpenStore(ctx context.Context) (store.Store, error) {
	if b.passed != nil {
		return b.passed.Open(ctx, b)
	}
	switch b.Config.Store {
	case StoreMemory:
		b.Logger.LogAttrs(ctx, slog.LevelWarn,
			"IDEMSK_STORE=memory protects nothing beyond this process: for local runs only")
		return memstore.New(memory()), nil
	case StoreNone:
		b.Logger.LogAttrs(ctx, slog.LevelWarn,
			"IDEMSK_STORE=none protects nothing: every delivery runs the handler, for comparison only")
		return noStore{}, nil
	}
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return nil, err
	}
	return dynamostore.New(dynamostore.NewClient(awsCfg), b.Config.dynamo())
}

// The attempts to send a dead letter, and the longest pause between them: with dynamostore.AttemptTimeout,
// about six seconds if SQS does not answer.
const (
	sqsAttempts   = 3
	sqsMaxBackoff = 200 * time.Millisecond
)

// deadLetters returns the destination of dead letters, nil if none is configured.
func (b *Base) deadLetters(ctx context.Context) (kafka.DeadLetters, error) {
	letters, err := b.destination(ctx)
	if err != nil || b.Config.DeadLetterBucket == "" {
		return letters, err
	}
	return b.bucket.Open(ctx, b, letters)
}

func (b *Base) destination(ctx context.Context) (kafka.DeadLetters, error) {
	switch {
	case b.Config.DeadLetterTopic != "":
		return b.topic.Open(ctx, b)
	case b.Config.DeadLetterQueueURL != "":
		return b.queue(ctx)
	case b.Config.Engine.AtMostOnce:
		return nil, &VarError{Name: effectsVariable, Value: atMostOnce, Want: "dead letters for the records " +
			"whose outcome is unknown: set IDEMSK_DEAD_LETTER_QUEUE_URL or IDEMSK_DEAD_LETTER_TOPIC"}
	}
	b.Logger.LogAttrs(ctx, slog.LevelWarn,
		"no dead letters are configured (IDEMSK_DEAD_LETTER_QUEUE_URL or IDEMSK_DEAD_LETTER_TOPIC): "+
			"a record that always fails blocks its partition")
	return nil, nil //nolint:nilnil // kafka.Config says what nil means
}

func (b *Base) queue(ctx context.Context) (*sqs.Queue, error) {
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return nil, err
	}
	client := awssqs.NewFromConfig(awsCfg, func(o *awssqs.Options) {
		o.HTTPClient = awsclient.New(awsCfg.HTTPClient, dynamostore.AttemptTimeout)
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = sqsAttempts, sqsMaxBackoff
		})
	})
	return sqs.New(client, sqs.Config{URL: b.Config.DeadLetterQueueURL,
		MaxBytes: b.Config.DeadLetterMaxBytes})
}

// loadOnce loads the SDK's configuration at the first call, so that a function without AWS does not wait for
// it.
func loadOnce() func(ctx context.Context) (aws.Config, error) {
	var cfg *aws.Config
	return func(ctx context.Context) (aws.Config, error) {
		if cfg == nil {
			loaded, err := config.LoadDefaultConfig(ctx)
			if err != nil {
				return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w", err)
			}
			cfg = &loaded
		}
		return *cfg, nil
	}
}

func newLogger(w io.Writer, level slog.Level, attrs func(ctx context.Context) []slog.Attr) *slog.Logger {
	lines := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	if attrs == nil {
		return slog.New(observe.LogHandler(lines))
	}
	return slog.New(observe.LogHandler(lines, attrs))
}

// DefaultLogger returns a Build that makes Base.Logger the default of package slog, so that the lines of a
// handler that logs by slog.InfoContext have the attributes of its record. It does not change where package
// log writes. Only a host's Start calls it, because the default is that of the process.
func DefaultLogger(build Build) Build {
	return func(ctx context.Context, base *Base) (kafka.Handler, error) {
		w, flags := log.Writer(), log.Flags()
		slog.SetDefault(base.Logger)
		log.SetOutput(w)
		log.SetFlags(flags)
		return build(ctx, base)
	}
}
