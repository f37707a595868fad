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

// What holds unless RelayConfig says otherwise.
const (
	DefaultMaxAttempts   = 5
	DefaultRetryDelay    = 250 * time.Millisecond
	DefaultMaxRetryDelay = 2 * time.Second
)

// Sender sends events to Kafka: a *relay.Producer.
type Sender interface {
	// Send returns an error for each event that it did not publish; relay.ErrRejected is charged to the event, and
	// relay.ErrHeldBack is for those of its topic and key behind it.
	Send(ctx context.Context, events []outbox.Event) []error
}

// Client is what a Relay needs of a *dynamodb.Client.
type Client interface {
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// RelayConfig configures a Relay. Every field's zero value stands for its default.
type RelayConfig struct {
	// MaxAttempts is how often Kafka may reject an event before it is set aside (default DefaultMaxAttempts).
	MaxAttempts int
	// RetryDelay is the pause before the second attempt; it doubles at each, up to MaxRetryDelay (defaults DefaultRetryDelay,
	// DefaultMaxRetryDelay). The stream's shard stands still meanwhile, so that there should not be many.
	RetryDelay, MaxRetryDelay time.Duration
	// Logger gets what is set aside (default slog.Default()).
	Logger *slog.Logger
}

// Relay sends the events of items to Kafka. It is safe for concurrent use.
type Relay struct {
	outbox *Outbox
	client Client
	sender Sender
	cfg    RelayConfig
}

// NewRelay returns a relay. The client and the sender stay the caller's. It returns ErrInvalidConfig, naming every field at
// fault.
func NewRelay(o *Outbox, client Client, sender Sender, cfg RelayConfig) (*Relay, error) {
	var errs []error
	if o == nil || client == nil || sender == nil {
		errs = append(errs, errors.New("the outbox, the client or the sender is nil"))
	}
	if cfg.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("MaxAttempts is %d: want 0, for %d, or more", cfg.MaxAttempts, DefaultMaxAttempts))
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

// Result is what became of items, and how many of their events were published, rejected (a time each), and set aside.
type Result struct {
	// Errs has an error for each item that must be sent again, nil for the others: those are published, or set aside.
	Errs                          []error
	Published, Rejected, SetAside int
}

// Send sends the events of items that are pending, in order, and sets those aside that Kafka rejects for good. It may send an
// event again that has been sent; it never begins one while another of its topic and key, ahead of it, is neither published
// nor set aside, and none that is set aside by now, whatever the items show. An event that is rejected holds up no others but
// those: they are published first.
//
// It takes no more than the pauses between the attempts and what Sender and Client take. When ctx ends it begins nothing more.
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
			// The topic has had all its attempts. What was behind these gets one, and no pause is made for it.
			pending = s.setAside(ctx, rejected, behind)
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

// parcel is an event under way.
type parcel struct {
	item     int
	event    outbox.Event
	attempts int
	err      error // of the last attempt
}

// send sends once. It returns those that Kafka rejected, and, in order, these and the others of their topics and keys; what
// failed for other reasons is given up.
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

// giveUp leaves events to be sent again with their items.
func (s *sending) giveUp(parcels []*parcel) {
	for _, p := range parcels {
		if s.Errs[p.item] == nil {
			it := &s.items[p.item]
			s.Errs[p.item] = fmt.Errorf("dynamooutbox: event %s of item %q, %q: %w", p.event.ID, shorten([]byte(it.Aggregate)), it.ID, p.err)
		}
	}
}

// setAside sets rejected events aside, and returns those that are not held back any more.
func (s *sending) setAside(ctx context.Context, rejected, behind []*parcel) []*parcel {
	stuck := make(map[aggregate]bool)
	gone := make(map[*parcel]bool)
	for _, p := range rejected {
		if err := s.note(ctx, &s.items[p.item], p.event.ID, p.attempts, p.err); err != nil {
			p.err = err
			stuck[aggregateOf(&p.event)] = true
			continue
		}
		gone[p] = true
		s.SetAside++
	}
	var free []*parcel
	for _, p := range behind {
		switch {
		case gone[p]:
		case stuck[aggregateOf(&p.event)]:
			s.giveUp([]*parcel{p})
		default:
			free = append(free, p)
		}
	}
	return free
}

// wait waits, and reports false if ctx ended meanwhile.
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
