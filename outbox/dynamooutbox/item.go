package dynamooutbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox"
)

// The attributes of an item. Code that creates the table uses AttrAggregate, AttrID and AttrExpiry, and the
// filter of the relay's event source AttrRequeuedAt. Attributes are added but never removed: later versions
// read every item that an earlier version wrote.
const (
	AttrAggregate = "aggregate" // S, the partition key: the topic and the record's key, or its hash
	AttrID        = "id"        // S, the sort key: the ID of the first of the events
	attrTopic     = "topic"     // S
	attrKey       = "key"       // B; absent if null
	// L of M: id S, value B (absent: a tombstone), headers L of M: key S, value B (absent: null).
	attrEvents    = "events"
	attrCreatedAt = "createdAt" // N, epoch ms
	// N, epoch s: the table's TTL attribute; absent while events are parked.
	AttrExpiry     = "expiryTimestamp"
	attrParked     = "parked"     // SS, the IDs of the parked events
	attrParkedAt   = "parkedAt"   // N, epoch ms
	attrFailure    = "failure"    // S, the reason for the last of them
	attrAttempts   = "attempts"   // N, how often the last of them was sent
	attrRequeued   = "requeued"   // SS, the IDs of the requeued events
	AttrRequeuedAt = "requeuedAt" // N, epoch ms
)

const (
	attrEventID = "id"
	attrValue   = "value"
	attrHeaders = "headers"
	attrHeader  = "key"
)

// Item is the events that a transaction published for one topic and key.
type Item struct {
	Aggregate, ID string // the item's key
	Events        []outbox.Event
	CreatedAt     time.Time
	// Parked are the IDs of the events that Kafka rejected. Failure is the last reason, Attempts the number
	// of times that the last event was sent.
	Parked   []string
	ParkedAt time.Time
	Failure  string
	Attempts int
	// Requeued are the IDs of the events that are to be sent again; nil if it was never requeued.
	Requeued []string
}

// Pending returns the events to send, in order, when the item is read from the stream: the requeued events if
// there are any, otherwise all, without the parked ones.
func (it *Item) Pending() []outbox.Event {
	return slices.DeleteFunc(slices.Clone(it.Events), func(e outbox.Event) bool {
		return slices.Contains(it.Parked, e.ID) || len(it.Requeued) > 0 && !slices.Contains(it.Requeued, e.ID)
	})
}

// aggregate identifies events that are kept in order. An empty key is a key, so those without one are not of
// its aggregate.
type aggregate struct {
	topic, key string
	keyed      bool
}

func aggregateOf(e *outbox.Event) aggregate { return aggregate{e.Topic, string(e.Key), e.Key != nil} }

// longestKey is the maximum size in bytes of a record key that is stored unhashed in AttrAggregate. A
// partition key has up to 2048 bytes.
const longestKey = 1024

// partitionKey returns the same value for all events of a topic and key, and a unique value for an event
// without a key. If two keys had the same value, they would be kept in order with each other.
func (d *draft) partitionKey() string {
	switch {
	case d.key == nil:
		return d.topic + "##" + d.first
	case len(d.key) <= longestKey && utf8.Valid(d.key):
		return d.topic + "#" + string(d.key)
	}
	sum := sha256.Sum256(d.key)
	return d.topic + "#sha256:" + hex.EncodeToString(sum[:])
}

func (d *draft) encode(now, expiry time.Time) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{
		AttrAggregate: text(d.partitionKey()), AttrID: text(d.first), attrTopic: text(d.topic),
		attrEvents:    &types.AttributeValueMemberL{Value: d.events},
		attrCreatedAt: number(now.UnixMilli()), AttrExpiry: number(expiry.Unix()),
	}
	if d.key != nil {
		item[attrKey] = binary(d.key)
	}
	return item
}

// encodeEvent encodes a copy of the event.
func encodeEvent(e *outbox.Event) types.AttributeValue {
	event := map[string]types.AttributeValue{attrEventID: text(e.ID)}
	if e.Value != nil {
		event[attrValue] = binary(e.Value)
	}
	if len(e.Headers) > 0 {
		headers := make([]types.AttributeValue, len(e.Headers))
		for i, h := range e.Headers {
			header := map[string]types.AttributeValue{attrHeader: text(h.Key)}
			if h.Value != nil {
				header[attrValue] = binary(h.Value)
			}
			headers[i] = &types.AttributeValueMemberM{Value: header}
		}
		event[attrHeaders] = &types.AttributeValueMemberL{Value: headers}
	}
	return &types.AttributeValueMemberM{Value: event}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func binary(b []byte) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: append([]byte{}, b...)} // empty is not nil
}

func texts(s []string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: s} }

// ErrNotAnItem means that an item is not an item of an outbox. The error names the attribute at fault.
var ErrNotAnItem = errors.New("dynamooutbox: the item is not one of an outbox")

// Decode decodes an item of the table or a new image of the stream. If this fails, it returns ErrNotAnItem
// (wrapped), and the item's key as far as it could be read.
func Decode(av map[string]types.AttributeValue) (Item, error) {
	d := decoder{item: av}
	it := Item{
		Aggregate: d.text(AttrAggregate), ID: d.text(AttrID),
		CreatedAt: time.UnixMilli(d.number(attrCreatedAt)),
	}
	topic, key := d.text(attrTopic), d.binary(attrKey)
	list, isList := av[attrEvents].(*types.AttributeValueMemberL)
	if !isList || len(list.Value) == 0 {
		d.fail(attrEvents, "a list of at least one")
		list = &types.AttributeValueMemberL{}
	}
	for _, v := range list.Value {
		e := d.event(v)
		e.Topic, e.Key = topic, key
		it.Events = append(it.Events, e)
	}
	it.Parked, it.Requeued = d.texts(attrParked), d.texts(attrRequeued)
	if len(it.Parked) > 0 {
		it.ParkedAt, it.Attempts, it.Failure = time.UnixMilli(d.number(attrParkedAt)),
			int(d.number(attrAttempts)), d.text(attrFailure)
	}
	if d.err != nil {
		return Item{Aggregate: it.Aggregate, ID: it.ID},
			fmt.Errorf("%w: %q, %q: %w", ErrNotAnItem, shorten([]byte(it.Aggregate)), it.ID, d.err)
	}
	return it, nil
}

// decoder reads attributes and keeps the first error.
type decoder struct {
	item map[string]types.AttributeValue
	err  error
}

func (d *decoder) fail(name, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("its attribute %s is a %T: want %s", name, d.item[name], want)
	}
}

func (d *decoder) text(name string) string {
	v, ok := d.item[name].(*types.AttributeValueMemberS)
	if !ok || v.Value == "" {
		d.fail(name, "a text that is not empty")
		return ""
	}
	return v.Value
}

func (d *decoder) number(name string) int64 {
	v, ok := d.item[name].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(name, "a whole number")
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		d.fail(name, "a whole number")
	}
	return n
}

// binary returns nil if there is no such attribute.
func (d *decoder) binary(name string) []byte {
	if d.item[name] == nil {
		return nil
	}
	v, ok := d.item[name].(*types.AttributeValueMemberB)
	if !ok {
		d.fail(name, "bytes, or none")
		return nil
	}
	return append([]byte{}, v.Value...) // the SDK returns nil for empty
}

// texts returns nil if there is no such attribute.
func (d *decoder) texts(name string) []string {
	if d.item[name] == nil {
		return nil
	}
	v, ok := d.item[name].(*types.AttributeValueMemberSS)
	if !ok {
		d.fail(name, "a set of texts, or none")
		return nil
	}
	return v.Value
}

func (d *decoder) event(v types.AttributeValue) (e outbox.Event) {
	inner := d.inner(v)
	e.ID, e.Value = inner.text(attrEventID), inner.binary(attrValue)
	if inner.item[attrHeaders] != nil {
		list, ok := inner.item[attrHeaders].(*types.AttributeValueMemberL)
		if !ok {
			inner.fail(attrHeaders, "a list")
			list = &types.AttributeValueMemberL{}
		}
		for _, v := range list.Value {
			header := inner.inner(v)
			e.Headers = append(e.Headers,
				outbox.Header{Key: header.text(attrHeader), Value: header.binary(attrValue)})
			inner.take(&header)
		}
	}
	d.take(&inner)
	return e
}

func (d *decoder) inner(v types.AttributeValue) decoder {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return decoder{err: fmt.Errorf("in it a %T: want a map", v)}
	}
	return decoder{item: m.Value}
}

func (d *decoder) take(inner *decoder) {
	if d.err == nil && inner.err != nil {
		d.err = fmt.Errorf("of its attribute %s: %w", attrEvents, inner.err)
	}
}

// shorten returns the start of a key for messages.
func shorten(key []byte) []byte {
	const most = 64
	return key[:min(len(key), most)]
}
