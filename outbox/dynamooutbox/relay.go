package dynamooutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// The defaults of RelayConfig.
const (
	DefaultMaxAttempts   = 5
	DefaultRetryDelay    = 250 * time.Millisecond
	DefaultMaxRetryDelay = 2 * time.Second
)

// Sender sends events to Kafka; *relay.Producer implements it.
type Sender interface {
	// Send returns an error for each event that it did not publish: relay.ErrRejected counts as an attempt of
	// the event, and relay.ErrHeldBack is for the later events of its topic and key.
	Send(ctx context.Context, events []outbox.Event) []error
}

// Client is the part of *dynamodb.Client that a Relay uses.
type Client interface {
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// RelayConfig configures a Relay. The zero value of a field means its default.
type RelayConfig struct {
	// MaxAttempts is the number of rejections by Kafka after which an event is parked. Default:
	// DefaultMaxAttempts.
	MaxAttempts int
	// RetryDelay is the pause before the second attempt. It doubles at each attempt up to MaxRetryDelay. The
	// shard of the stream waits meanwhile, so the pauses should be short. Defaults: DefaultRetryDelay,
	// DefaultMaxRetryDelay.
	RetryDelay, MaxRetryDelay time.Duration
	// Logger logs parked events. Default: slog.Default().
	Logger *slog.Logger
}

// Relay sends the events of items to Kafka. It is safe for concurrent use.
type Relay struct {
	outbox *Outbox
	client Client
	sender Sender
	cfg    RelayConfig
}

// NewRelay returns a relay. The caller closes the sender. If cfg is invalid, it returns ErrInvalidConfig
// (wrapped) and names every invalid field.
func NewRelay(o *Outbox, client Client, sender Sender, cfg RelayConfig) (*Relay, error) {
	var errs []error
	if o == nil || client == nil || sender == nil {
		errs = append(errs, errors.New("the outbox, the client or the sender is nil"))
	}
	if cfg.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("MaxAttempts is %d: want 0, for %d, or more", cfg.MaxAttempts,
			DefaultMaxAttempts))
	}
	if cfg.RetryDelay < 0 || cfg.MaxRetryDelay < 0 {
		errs = append(errs, fmt.Errorf("RetryDelay is %v and MaxRetryDelay is %v: want 0, for %v and %v, or more",
			cfg.RetryDelay, cfg.MaxRetryDelay, DefaultRetryDelay, DefaultMaxRetryDelay))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, errors.Join(errs...))
	}
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, DefaultMaxAttempts)
	cfg.RetryDelay = cmp.Or(cfg.RetryDelay, DefaultRetryDelay)
	cfg.MaxRetryDelay = max(cmp.Or(cfg.MaxRetryDelay, DefaultMaxRetryDelay), cfg.RetryDelay)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default()).With("table", o.table)
	return &Relay{outbox: o, client: client, sender: sender, cfg: cfg}, nil
}

// Result is the result of Send: the errors of items, and the numbers of published events, rejections and
// parked events.
type Result struct {
	// Errs has an error for each item that must be retried, and nil for each item whose events are published
	// or parked.
	Errs                        []error
	Published, Rejected, Parked int
}

// Send sends the pending events of items in order and parks those that Kafka rejects MaxAttempts times. It
// may send an event more than once. It sends an event only after each earlier event of its topic and key is
// published or parked. It sends no event that is parked in the table, even if the stream shows it as pending.
// A rejected event delays only the later events of its topic and key; all others are sent first.
//
// Its duration is that of the pauses between attempts and of the calls of Sender and Client. When ctx ends,
// it starts no further attempt.
func (r *Relay) Send(ctx context.Context, items []Item) Result {
	items = slices.Clone(items)
	s := &sending{Relay: r, items: items, Result: Result{Errs: make([]error, len(items))}}
	if err := r.readParked(ctx, items); err != nil {
		for i := range s.Errs {
			s.Errs[i] = err
		}
		return s.Result
	}
	var pending []*parcel
	for i := range items {
		for _, e := range items[i].Pending() {
			pending = append(pending, &parcel{item: i, event: e})
		}
	}
	pause := r.cfg.RetryDelay
	for attempt := 1; len(pending) > 0; attempt++ {
		rejected, behind := s.send(ctx, pending)
		switch {
		case len(rejected) == 0:
			return s.Result
		case attempt < r.cfg.MaxAttempts:
			if !wait(ctx, pause) {
				s.giveUp(behind)
				return s.Result
			}
			pending = behind
			pause = min(2*pause, r.cfg.MaxRetryDelay)
		default:
			// The rejected events have used all attempts. The events behind them get one attempt without a
			// pause.
			pending = s.park(ctx, rejected, behind)
		}
	}
	return s.Result
}

// sending is one call of Send.
type sending struct {
	*Relay
	Result
	items []Item
}

// parcel is an event to be sent.
type parcel struct {
	item     int
	event    outbox.Event
	attempts int
	err      error // of the last attempt
}

// send sends the pending events once. It returns the rejected events, and, in order, the rejected events with
// the later ones of their topics and keys. It gives up events that failed for other reasons.
func (s *sending) send(ctx context.Context, pending []*parcel) (rejected, again []*parcel) {
	events := make([]outbox.Event, len(pending))
	for i, p := range pending {
		events[i] = p.event
	}
	retry := make(map[aggregate]bool)
	for i, err := range s.sender.Send(ctx, events) {
		p := pending[i]
		p.err = err
		switch of := aggregateOf(&p.event); {
		case err == nil:
			s.Published++
		case errors.Is(err, relay.ErrRejected):
			p.attempts++
			s.Rejected++
			retry[of] = true
			rejected, again = append(rejected, p), append(again, p)
		case errors.Is(err, relay.ErrHeldBack) && retry[of]:
			again = append(again, p)
		default:
			s.giveUp([]*parcel{p})
		}
	}
	return rejected, again
}

// giveUp marks the items of events as failed, so that they are redelivered.
func (s *sending) giveUp(parcels []*parcel) {
	for _, p := range parcels {
		if s.Errs[p.item] == nil {
			it := &s.items[p.item]
			s.Errs[p.item] = fmt.Errorf("dynamooutbox: event %s of item %q, %q: %w", p.event.ID,
				shorten([]byte(it.Aggregate)), it.ID, p.err)
		}
	}
}

// park parks rejected events and returns the events that can be sent now. It logs those of a topic together.
func (s *sending) park(ctx context.Context, rejected, behind []*parcel) []*parcel {
	type notice struct {
		topic string
		gone  bool
	}
	events, first := make(map[notice]int), make(map[notice]*parcel)
	stuck := make(map[aggregate]bool)
	done := make(map[*parcel]bool)
	for _, p := range rejected {
		gone, err := s.note(ctx, &s.items[p.item], p, parkBeside)
		if err != nil {
			p.err = err
			stuck[aggregateOf(&p.event)] = true
			continue
		}
		done[p] = true
		s.Parked++
		of := notice{p.event.Topic, gone}
		events[of]++
		first[of] = cmp.Or(first[of], p)
	}
	for of, p := range first {
		s.log(ctx, &s.items[p.item], p, of.gone, events[of])
	}
	var free []*parcel
	for _, p := range behind {
		switch {
		case done[p]:
		case stuck[aggregateOf(&p.event)]:
			s.giveUp([]*parcel{p})
		default:
			free = append(free, p)
		}
	}
	return free
}

// wait waits for d. It returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
