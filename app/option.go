package app

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Option adds an optional part to a program, such as postgres.Store.
type Option func(*options)

type options struct {
	stores []Store
	topic  *DeadLetterTopic
	bucket *DeadLetterBucket
	schema *Schemas

	observers observers
	tracers   []Tracer
}

// WithObserver adds an observer of the engine, which may be a Tracer or a PollTracer.
func WithObserver(o idem.Observer) Option {
	return func(all *options) {
		all.observers = append(all.observers, o)
		if t, ok := o.(Tracer); ok {
			all.tracers = append(all.tracers, t)
		}
	}
}

// Tracer is an observer that is also told of batches, and puts a handler around the program's. Of several tracers, the
// first one's handler is the outermost, and the last one is told of batches and polls.
type Tracer interface {
	idem.Observer
	// Handler returns a handler that calls next, which is the program's handler if that is a HandlerFunc.
	Handler(next kafka.HandlerFunc) kafka.HandlerFunc
	// Batch is for kafka.Config.Batch.
	Batch(ctx context.Context, partitions [][]kafka.Record) (inside context.Context, end func(*kafka.Batch))
}

// PollTracer is a Tracer that is also told of the polls of a process.
type PollTracer interface {
	Tracer
	// Poll is for kafka.Config.Poll.
	Poll(ctx context.Context, began time.Time, records []kafka.Record) kafka.Within
}

// observers is a list of observers as one.
type observers []idem.Observer

// Observe tells each observer.
func (all observers) Observe(ctx context.Context, e idem.Event) {
	for _, o := range all {
		o.Observe(ctx, e)
	}
}

// collect returns what the options add.
func collect(given []Option) (o options) {
	for _, add := range given {
		add(&o)
	}
	return o
}

// store returns the store with a name, nil if there is none.
func (o *options) store(name string) *Store {
	for i := range o.stores {
		if o.stores[i].Name == name {
			return &o.stores[i]
		}
	}
	return nil
}

// Store is a store whose client is not part of every program. The program's main package imports it and
// passes it to Start.
type Store struct {
	// Name is the value of IDEMSK_STORE that selects the store.
	Name string
	// Read reads the store's variables into c, which has all other values already. It reports errors to v.
	Read func(v *Vars, c *Config)
	// Open returns the store. It registers its resources with Base.OnClose.
	Open func(ctx context.Context, b *Base) (store.Store, error)
}

// WithStore adds a store.
func WithStore(s Store) Option { return func(o *options) { o.stores = append(o.stores, s) } }

// DeadLetterTopic sends dead letters to the topic IDEMSK_DEAD_LETTER_TOPIC by a client that is not part of
// every program.
type DeadLetterTopic struct {
	// Read reads the client's variables. It reports errors to v.
	Read func(v *Vars)
	// Open returns the topic Config.DeadLetterTopic. It registers its resources with Base.OnClose.
	Open func(ctx context.Context, b *Base) (kafka.DeadLetters, error)
}

// WithDeadLetterTopic adds the client for a topic of dead letters.
func WithDeadLetterTopic(t DeadLetterTopic) Option { return func(o *options) { o.topic = &t } }

// DeadLetterBucket stores large dead letters in the bucket IDEMSK_DEAD_LETTER_BUCKET by a client
// that is not part of every program.
type DeadLetterBucket struct {
	// Check reports an invalid value of the variable to v.
	Check func(v *Vars, name, value string)
	// Open returns dead letters that store large letters in Config.DeadLetterBucket, and send smaller ones to
	// next.
	Open func(ctx context.Context, b *Base, next kafka.DeadLetters) (kafka.DeadLetters, error)
}

// WithDeadLetterBucket adds the client for a bucket.
func WithDeadLetterBucket(d DeadLetterBucket) Option { return func(o *options) { o.bucket = &d } }

// Schemas decodes values by the schema registry IDEMSK_SCHEMA_REGISTRY, with clients and decoders that are
// not part of every program.
type Schemas struct {
	// Check reports an invalid value of a variable of Config.Schemas to v.
	Check func(v *Vars, c *SchemaConfig)
	// Open makes the keys and fingerprints of b.Config.Records those of decoded values. It returns how a
	// handler's records are converted (see kafka.Converted); nil if it gets them as they arrived.
	Open func(ctx context.Context, b *Base) (func(ctx context.Context, r *kafka.Record) error, error)
}

// WithSchemas adds the decoders.
func WithSchemas(s Schemas) Option { return func(o *options) { o.schema = &s } }

// imported describes how a program adds a store.
func imported(pkg string) string {
	return "a store that this program has: import github.com/idemsk/idemsk/app/" + pkg +
		" in its main package, and pass " + pkg +
		".Store() to Start"
}
