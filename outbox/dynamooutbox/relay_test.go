package dynamooutbox_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// kafka is a Sender with prepared answers by the events' values. It holds back events as a Producer does and
// records its calls.
type kafka struct {
	says map[string]error // answers by value
	up   map[string]int   // number of refusals after which it accepts the value
	log  []string         // the published values
	sent int              // number of calls
}

// Send implements dynamooutbox.Sender.
func (k *kafka) Send(_ context.Context, events []outbox.Event) []error {
	k.sent++
	errs := make([]error, len(events))
	blocked := make(map[string]bool)
	for i, e := range events {
		of, value := fmt.Sprintf("%s/%q/%v", e.Topic, e.Key, e.Key != nil), string(e.Value)
		switch {
		case blocked[of]:
			errs[i] = relay.ErrHeldBack
		case k.says[value] != nil:
			errs[i] = fmt.Errorf("%w: as the test says", k.says[value])
			blocked[of] = e.Key != nil
			if n, some := k.up[value]; some && n == 1 {
				delete(k.says, value)
			} else if some {
				k.up[value]--
			}
		default:
			k.log = append(k.log, value)
		}
	}
	return errs
}

// table is a Client that records parked events.
type table struct {
	parked []string                                   // IDs
	items  map[string]map[string]types.AttributeValue // stored attributes by the item's ID
	err    error                                      // error of every request
	full   error                                      // error of writes
	dead   *bool                                      // whether the calling process is dead
	reads  []int                                      // number of items of each read
	// maximum number of items that a read returns; 0 means all, -1 none
	most int
}

// UpdateItem implements dynamooutbox.Client.
func (c *table) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := cmp.Or(c.err, c.full); err != nil {
		return nil, err
	}
	if c.dead != nil && *c.dead {
		return nil, context.Canceled
	}
	ids := in.ExpressionAttributeValues[":ids"].(*types.AttributeValueMemberSS).Value
	c.parked = append(c.parked, ids...)
	id := in.Key[dynamooutbox.AttrID].(*types.AttributeValueMemberS).Value
	if c.items == nil {
		c.items = make(map[string]map[string]types.AttributeValue)
	}
	if it := c.items[id]; it != nil {
		ids = append(ids, it["parked"].(*types.AttributeValueMemberSS).Value...)
	}
	c.items[id] = maps.Clone(in.Key)
	c.items[id]["parked"] = &types.AttributeValueMemberSS{Value: ids}
	return &dynamodb.UpdateItemOutput{}, nil
}

// BatchGetItem implements dynamooutbox.Client.
func (c *table) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	out := &dynamodb.BatchGetItemOutput{Responses: make(map[string][]map[string]types.AttributeValue)}
	for name, of := range in.RequestItems {
		c.reads = append(c.reads, len(of.Keys))
		if c.err != nil {
			return nil, c.err
		}
		keys := of.Keys
		if most := max(c.most, 0); c.most != 0 && len(keys) > most {
			out.UnprocessedKeys = map[string]types.KeysAndAttributes{name: {Keys: keys[most:],
				ConsistentRead: of.ConsistentRead}}
			keys = keys[:most]
		}
		for _, key := range keys {
			if it := c.items[key[dynamooutbox.AttrID].(*types.AttributeValueMemberS).Value]; it != nil {
				out.Responses[name] = append(out.Responses[name], it)
			}
		}
	}
	return out, nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newRelay(t *testing.T, c dynamooutbox.Client, s dynamooutbox.Sender) *dynamooutbox.Relay {
	t.Helper()
	r, err := dynamooutbox.NewRelay(newOutbox(t, dynamooutbox.Config{}), c, s,
		dynamooutbox.RelayConfig{Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// item returns an item of topic "t" with an event for each value. The values are also the IDs.
func item(key string, values ...string) dynamooutbox.Item {
	it := dynamooutbox.Item{Aggregate: "t#" + key, ID: values[0], CreatedAt: time.Now()}
	for _, v := range values {
		it.Events = append(it.Events, event(v, "t", key, v))
	}
	return it
}

// ofEmptyKey returns such an item for the key that is empty, not null.
func ofEmptyKey(values ...string) dynamooutbox.Item {
	it := item("", values...)
	for i := range it.Events {
		it.Events[i].Key = []byte{}
	}
	return it
}

// failed returns the numbers of the items that must be retried.
func failed(res dynamooutbox.Result) (which []int) {
	for i, err := range res.Errs {
		if err != nil {
			which = append(which, i)
		}
	}
	return which
}

func TestRelay(t *testing.T) {
	rejected, unavailable := relay.ErrRejected, relay.ErrUnavailable
	for name, tc := range map[string]struct {
		items     []dynamooutbox.Item
		says      map[string]error
		up        map[string]int
		tableDown error // error of every request
		tableFull error // error of writes
		published []string
		parked    []string
		failed    []int
		pause     time.Duration
	}{
		"all goes well": {
			items:     []dynamooutbox.Item{item("a", "a1", "a2"), item("b", "b1"), item("a", "a3")},
			published: []string{"a1", "a2", "b1", "a3"},
		},
		"nothing": {},
		"a poison event is parked after its attempts, and delays only the events behind it": {
			items:     []dynamooutbox.Item{item("a", "a1"), item("b", "b1"), item("a", "a2", "a3")},
			says:      map[string]error{"a1": rejected},
			published: []string{"b1", "a2", "a3"}, parked: []string{"a1"}, pause: 3750 * time.Millisecond,
		},
		"one within an item": {
			items: []dynamooutbox.Item{item("a", "a1", "a2", "a3")}, says: map[string]error{"a2": rejected},
			published: []string{"a1", "a3"}, parked: []string{"a2"}, pause: 3750 * time.Millisecond,
		},
		"many, one behind the other, make no further pauses": {
			items:     []dynamooutbox.Item{item("a", "a1", "a2", "a3"), item("a", "a4")},
			says:      map[string]error{"a1": rejected, "a2": rejected, "a4": rejected},
			published: []string{"a3"}, parked: []string{"a1", "a2", "a4"}, pause: 3750 * time.Millisecond,
		},
		"ones without key": {
			items:     []dynamooutbox.Item{item("", "1"), item("", "2"), item("", "3")},
			says:      map[string]error{"1": rejected, "3": rejected},
			published: []string{"2"}, parked: []string{"1", "3"}, pause: 3750 * time.Millisecond,
		},
		"ones with an empty key are not behind one without key": {
			items:  []dynamooutbox.Item{item("", "1"), ofEmptyKey("e1", "e2")},
			says:   map[string]error{"1": rejected, "e1": unavailable},
			parked: []string{"1"}, failed: []int{1}, pause: 3750 * time.Millisecond,
		},
		"a topic that comes to be": {
			items: []dynamooutbox.Item{item("a", "a1", "a2")}, says: map[string]error{"a1": rejected},
			up:        map[string]int{"a1": 2},
			published: []string{"a1", "a2"}, pause: 750 * time.Millisecond,
		},
		"Kafka is down": {
			items: []dynamooutbox.Item{item("a", "a1"), item("b", "b1")},
			says:  map[string]error{"a1": unavailable, "b1": unavailable}, failed: []int{0, 1},
		},
		"one does not come through, and what is behind it is held back": {
			items:     []dynamooutbox.Item{item("a", "a1"), item("b", "b1"), item("a", "a2")},
			says:      map[string]error{"a1": unavailable},
			published: []string{"b1"}, failed: []int{0, 2},
		},
		"one does not come through, another is poison": {
			items: []dynamooutbox.Item{item("a", "a1"), item("b", "b1"), item("a", "a2"), item("b", "b2")},
			says:  map[string]error{"a1": unavailable, "b1": rejected}, published: []string{"b2"},
			parked: []string{"b1"}, failed: []int{0, 2},
			pause: 3750 * time.Millisecond,
		},
		"it can't be parked": {
			items:     []dynamooutbox.Item{item("a", "a1"), item("", "1"), item("a", "a2"), item("b", "b1")},
			says:      map[string]error{"a1": rejected, "1": rejected},
			tableFull: errors.New("down"), published: []string{"b1"}, failed: []int{0, 1, 2},
			pause: 3750 * time.Millisecond,
		},
		"the parked events can't be read": {
			items: []dynamooutbox.Item{item("a", "a1"), item("b", "b1")}, tableDown: errors.New("down"),
			failed: []int{0, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, c := &kafka{says: tc.says, up: tc.up}, &table{err: tc.tableDown, full: tc.tableFull}
				begun := time.Now()
				res := newRelay(t, c, k).Send(t.Context(), tc.items)
				if !slices.Equal(k.log, tc.published) || res.Published != len(tc.published) {
					t.Errorf("%q were published, %d; want %q", k.log, res.Published, tc.published)
				}
				if !slices.Equal(c.parked, tc.parked) || res.Parked != len(tc.parked) {
					t.Errorf("%q were parked, %d; want %q", c.parked, res.Parked, tc.parked)
				}
				if got := failed(res); !slices.Equal(got, tc.failed) {
					t.Errorf("the items %v must be retried: %v; want %v", got, res.Errs, tc.failed)
				}
				if took := time.Since(begun); took != tc.pause {
					t.Errorf("it took %v; want %v", took, tc.pause)
				}
			})
		})
	}
}

// The pauses grow up to MaxRetryDelay.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &kafka{says: map[string]error{"a1": relay.ErrRejected}}, &table{}
		r, err := dynamooutbox.NewRelay(newOutbox(t, dynamooutbox.Config{}), c, k, dynamooutbox.RelayConfig{
			MaxAttempts: 6, RetryDelay: time.Second, MaxRetryDelay: 3 * time.Second, Logger: discard(),
		})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		res := r.Send(t.Context(), []dynamooutbox.Item{item("a", "a1")})
		if took := time.Since(begun); took != 12*time.Second || res.Rejected != 6 || res.Parked != 1 ||
			k.sent != 6 {
			t.Errorf("%+v took %v and %d attempts; want 12s and 6", res, took, k.sent)
		}
	})
}

// When its context ends, a relay leaves rejected events to the next delivery.
func TestRelayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &kafka{says: map[string]error{"a1": relay.ErrRejected}}, &table{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		res := newRelay(t, c, k).Send(ctx,
			[]dynamooutbox.Item{item("a", "a1"), item("b", "b1"), item("a", "a2")})
		if got := failed(res); !slices.Equal(got, []int{0, 2}) ||
			!errors.Is(res.Errs[0], relay.ErrRejected) || res.Published != 1 || len(c.parked) != 0 {
			t.Errorf("%+v, parked %q", res, c.parked)
		}
	})
}

// Parked events are not sent. If events are requeued, only these are sent.
func TestPending(t *testing.T) {
	it := item("a", "a1", "a2", "a3")
	it.Parked = []string{"a2"}
	values := func() (list []string) {
		for _, e := range it.Pending() {
			list = append(list, string(e.Value))
		}
		return list
	}
	if got := values(); !slices.Equal(got, []string{"a1", "a3"}) {
		t.Errorf("%q are pending", got)
	}
	it.Parked, it.Requeued = nil, []string{"a3", "a2"}
	if got := values(); !slices.Equal(got, []string{"a2", "a3"}) {
		t.Errorf("%q are pending after a requeue", got)
	}
	it.Parked = []string{"a2"} // it was rejected again
	if got := values(); !slices.Equal(got, []string{"a3"}) {
		t.Errorf("%q are pending when one of the requeued events is parked again", got)
	}
}

// A redelivered batch shows its items as they were before an event was parked. The parked event stays parked
// until it is requeued, so that it is not sent after a later event of its key.
func TestParkedEventIsNotSentWithARedeliveredBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &kafka{says: map[string]error{"a1": relay.ErrRejected, "a3": relay.ErrRejected,
			"b1": relay.ErrUnavailable}}, &table{}
		items := []dynamooutbox.Item{item("b", "b1"), item("a", "a1"), item("a", "a2", "a3", "a4")}
		r := newRelay(t, c, k)
		if res := r.Send(t.Context(), items); !slices.Equal(failed(res), []int{0}) ||
			!slices.Equal(c.parked, []string{"a1", "a3"}) {
			t.Fatalf("%+v, parked %q", res, c.parked)
		}
		k.says = nil // Kafka accepts everything now
		if res := r.Send(t.Context(), items); failed(res) != nil || res.Parked != 0 {
			t.Errorf("%+v", res)
		}
		if want := []string{"a2", "a4", "b1", "a2", "a4"}; !slices.Equal(k.log, want) {
			t.Errorf("Kafka has %q; want %q", k.log, want)
		}
		requeued := items[1]
		requeued.Requeued = []string{"a1"}
		delete(c.items["a1"], "parked") // as after Outbox.Requeue
		r.Send(t.Context(), []dynamooutbox.Item{requeued})
		if got := k.log[len(k.log)-1]; got != "a1" {
			t.Errorf("%q was published last; want the event that was requeued", got)
		}
	})
}

// The parked events are read for a hundred items at a time, once for each item, until DynamoDB has returned
// all.
func TestParkedEventsAreReadInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &kafka{}, &table{most: 60}
		var items []dynamooutbox.Item
		for i := range 120 {
			items = append(items, item("a", fmt.Sprintf("%03d", i)))
		}
		items = append(items, items[0]) // as when it is requeued immediately
		res := newRelay(t, c, k).Send(t.Context(), items)
		if failed(res) != nil || !slices.Equal(c.reads, []int{100, 40, 20}) || len(k.log) != 121 {
			t.Errorf("%+v; read %v, published %d", res, c.reads, len(k.log))
		}
		c.most, c.reads = -1, nil
		res = newRelay(t, c, k).Send(t.Context(), items[:2])
		if len(failed(res)) != 2 || len(c.reads) != dynamostore.MaxAttempts || len(k.log) != 121 {
			t.Errorf("while nothing is read: %+v; read %v, published %d", res, c.reads, len(k.log))
		}
	})
}

// The event of a deleted item can't be parked and delays no other event.
func TestDeletedItemDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &kafka{says: map[string]error{"a1": relay.ErrRejected}},
			&table{full: &types.ConditionalCheckFailedException{}}
		if res := newRelay(t, c, k).Send(t.Context(),
			[]dynamooutbox.Item{item("a", "a1", "a2")}); res.Errs[0] != nil ||
			!slices.Equal(k.log, []string{"a2"}) {
			t.Errorf("%+v, published %q", res, k.log)
		}
	})
}

// Events of one missing topic that are parked together give one line in the log.
func TestParkedEventsOfATopicAreLoggedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		r, err := dynamooutbox.NewRelay(newOutbox(t, dynamooutbox.Config{}), &table{}, refusing{"no such topic"},
			dynamooutbox.RelayConfig{RetryDelay: time.Second, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		var items []dynamooutbox.Item
		for i := range 100 {
			items = append(items, item(fmt.Sprint(i), fmt.Sprintf("a%03d", i)))
		}
		if res := r.Send(t.Context(), items); res.Parked != 100 {
			t.Errorf("%+v", res)
		}
		if lines := strings.Split(strings.TrimSpace(said.String()), "\n"); len(lines) != 1 ||
			!strings.Contains(lines[0], "topic=t events=100 ") || !strings.Contains(lines[0], "no such topic") {
			t.Errorf("%d lines:\n%s", len(lines), said.String())
		}
	})
}
