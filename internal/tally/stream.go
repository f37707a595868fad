package tally

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// Stream stands for the stream of an outbox in DynamoDB and its event source: it hands items to relays, those of an aggregate in
// order, and a batch again whose relay has died, or, now and then, one that was sent long ago.
type Stream struct {
	testing.TB
	db      *dynamodb.Client
	box     *dynamooutbox.Outbox
	brokers []string
	batch   int // the most items that a relay is handed
	random  *rand.Rand
	items   []dynamooutbox.Item // what has been seen, in this order
	seen    map[string]bool     // by ID

	Died int // relays that died at work
}

// NewStream returns the stream of an outbox, to the topics of brokers. A relay is handed up to batch items.
func NewStream(t testing.TB, seed Seed, db *dynamodb.Client, box *dynamooutbox.Outbox, brokers []string, batch int) *Stream {
	return &Stream{TB: t, db: db, box: box, brokers: brokers, batch: batch, random: seed.Rand("stream"), seen: make(map[string]bool)}
}

// Items returns how many items were relayed.
func (s *Stream) Items() int { return len(s.items) }

// Relay relays until over is closed and all is relayed. What was relayed last comes again then: of that, there is more in the
// topics than there are events, up to their ends.
func (s *Stream) Relay(over <-chan struct{}) {
	s.Helper()
	look := time.NewTicker(20 * time.Millisecond) // a look reads the whole table
	defer look.Stop()
	for at, last := 0, false; ; {
		select {
		case <-over:
			last = true
		case <-look.C:
		}
		s.poll()
		if last && at == len(s.items) {
			break
		}
		for at < len(s.items) && s.Context().Err() == nil {
			next := s.items[at:min(at+s.batch, len(s.items))]
			if s.relay(next, s.random.IntN(3) == 0) {
				at += len(next)
			}
			if from := s.random.IntN(at + 1); at > 0 && s.random.IntN(5) == 0 {
				s.relay(s.items[from:min(from+s.batch, at)], s.random.IntN(3) == 0)
			}
		}
		if err := s.Context().Err(); err != nil {
			s.Fatal(err)
		}
	}
	s.relay(s.items[max(0, len(s.items)-s.batch):], false)
}

// poll looks what is new in the table. The order of IDs is that of the commits where an account's payments are handled one
// after the other; and none is seen without those before it as long as the table fits a page of the scan, 1 MB.
func (s *Stream) poll() {
	s.Helper()
	seen := len(s.items)
	for item, err := range s.box.List(s.Context(), s.db, dynamooutbox.ListQuery{}) {
		if err != nil {
			s.Fatal(err)
		}
		if !s.seen[item.ID] {
			s.seen[item.ID] = true
			s.items = append(s.items, item)
		}
	}
	slices.SortFunc(s.items[seen:], func(a, b dynamooutbox.Item) int { return strings.Compare(a.ID, b.ID) })
}

// relay has a new relay send items, and reports whether it lived to the end.
func (s *Stream) relay(items []dynamooutbox.Item, dies bool) bool {
	s.Helper()
	producer, err := relay.New(relay.Config{Options: []kgo.Opt{kgo.SeedBrokers(s.brokers...)}})
	if err != nil {
		s.Fatal(err)
	}
	defer producer.Close()
	var sender dynamooutbox.Sender = producer
	if dies {
		s.Died++
		sender = &dying{producer, s.random}
	}
	r, err := dynamooutbox.NewRelay(s.box, unparked{s.db}, sender, dynamooutbox.RelayConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Fatal(err)
	}
	result := r.Send(s.Context(), slices.Clone(items))
	if dies {
		return false
	}
	if err := errors.Join(result.Errs...); err != nil || result.Published != len(items) {
		s.Fatal(fmt.Errorf("%d of %d items were published: %w", result.Published, len(items), err))
	}
	return true
}

// unparked is a table in which nothing is set aside: the in-process DynamoDB can't be asked for items by a sort key.
type unparked struct{ *dynamodb.Client }

// BatchGetItem implements dynamooutbox.Client.
func (unparked) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, nil
}

var errDied = errors.New("the relay has died")

// dying sends as a relay does that dies: some of the first events, or all, are published, and nobody hears of it.
type dying struct {
	*relay.Producer
	random *rand.Rand
}

// Send implements dynamooutbox.Sender.
func (d *dying) Send(ctx context.Context, events []outbox.Event) []error {
	_ = d.Producer.Send(ctx, events[:d.random.IntN(len(events)+1)])
	errs := make([]error, len(events))
	for i := range errs {
		errs[i] = errDied
	}
	return errs
}
