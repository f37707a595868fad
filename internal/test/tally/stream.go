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

// Stream simulates the stream of a DynamoDB outbox and its event source. It delivers items to relays, those
// of an aggregate in order. It redelivers a batch whose relay has died and, sometimes, an earlier batch.
type Stream struct {
	testing.TB
	db      *dynamodb.Client
	box     *dynamooutbox.Outbox
	brokers []string
	batch   int // maximum batch size
	random  *rand.Rand
	items   []dynamooutbox.Item // all items, in the order of delivery
	seen    map[string]bool     // by ID

	Died int // number of relays that died during a batch
}

// NewStream returns the stream of an outbox to the topics of brokers. A batch has up to batch items.
func NewStream(t testing.TB, seed Seed, db *dynamodb.Client, box *dynamooutbox.Outbox, brokers []string,
	batch int) *Stream {
	return &Stream{TB: t, db: db, box: box, brokers: brokers, batch: batch, random: seed.Rand("stream"),
		seen: make(map[string]bool)}
}

// Items returns the number of delivered items.
func (s *Stream) Items() int { return len(s.items) }

// Relay delivers items until over is closed and all are delivered. It redelivers the last items, so that the
// topics have more records than there are events.
func (s *Stream) Relay(over <-chan struct{}) {
	s.Helper()
	look := time.NewTicker(20 * time.Millisecond) // each poll reads the whole table
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

// poll reads the new items of the table. The order of IDs is that of the commits if an account's payments are
// handled one after another. No item is seen before an earlier one as long as the table fits a page of the
// scan, 1 MB.
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
	r, err := dynamooutbox.NewRelay(s.box, unparked{s.db}, sender,
		dynamooutbox.RelayConfig{Logger: slog.New(slog.DiscardHandler)})
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

// unparked is a table without parked events, because the in-process DynamoDB does not support sort keys.
type unparked struct{ *dynamodb.Client }

// BatchGetItem implements dynamooutbox.Client.
func (unparked) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
	...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, nil
}

var errDied = errors.New("the relay has died")

// dying sends as a relay that dies: it publishes some of the first events, or all, and returns no result.
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
