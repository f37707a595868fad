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

// The attributes of an item. Whoever provisions the table takes AttrAggregate, AttrID and AttrExpiry from here. The format only
// ever grows: later versions read every item that an earlier one wrote.
const (
	AttrAggregate  = "aggregate"       // S, the partition key: the topic and what tells its keys apart
	AttrID         = "id"              // S, the sort key: the ID of the first of the events
	AttrTopic      = "topic"           // S
	AttrKey        = "key"             // B; absent: null
	AttrEvents     = "events"          // L of M: id S, value B (absent: a tombstone), headers L of M: key S, value B (absent: null)
	AttrCreatedAt  = "createdAt"       // N, epoch ms
	AttrExpiry     = "expiryTimestamp" // N, epoch s: the table's TTL attribute; absent while something is set aside
	AttrAside      = "aside"           // SS, the IDs of the events that are set aside
	AttrAsideAt    = "asideAt"         // N, epoch ms
	AttrFailure    = "failure"         // S, why the last of them was
	AttrAttempts   = "attempts"        // N, how often it had been sent
	AttrRequeued   = "requeued"        // SS, the IDs of the events that are to be sent again
	AttrRequeuedAt = "requeuedAt"      // N, epoch ms
)

const (
	attrEventID = "id"
	attrValue   = "value"
	attrHeaders = "headers"
	attrHeader  = "key"
)

// Item is what a transaction has published for one topic and key.
type Item struct {
	Aggregate, ID string // the item's key
	Events        []outbox.Event
	CreatedAt     time.Time
	// Aside are the IDs of the events that Kafka has rejected, Failure says why, Attempts how often the last was sent.
	Aside    []string
	AsideAt  time.Time
	Failure  string
	Attempts int
	// Requeued are the IDs of the events that are to be sent again; nil if it was never requeued.
	Requeued []string
}

// Pending returns the events that are to be sent, in order, when the item is seen in the stream: those that are not set aside
// and, if some are requeued, only these.
func (it *Item) Pending() []outbox.Event {
	return slices.DeleteFunc(slices.Clone(it.Events), func(e outbox.Event) bool {
		return slices.Contains(it.Aside, e.ID) || len(it.Requeued) > 0 && !slices.Contains(it.Requeued, e.ID)
	})
}

// aggregate is what is kept in order.
type aggregate struct{ topic, key string }

func aggregateOf(e *outbox.Event) aggregate { return aggregate{e.Topic, string(e.Key)} }

// longestKey is how long a key may be that stands in AttrAggregate as it is: a partition key has up to 2048 bytes.
const longestKey = 1024

// partitionKey is the same for all events of a topic and key, and for those without key as good as random. Two keys with the
// same one would only be kept in order with each other.
func (d *draft) partitionKey() string {
	switch {
	case len(d.key) == 0:
		return d.topic + "##" + d.first
	case len(d.key) <= longestKey && utf8.Valid(d.key):
		return d.topic + "#" + string(d.key)
	}
	sum := sha256.Sum256(d.key)
	return d.topic + "#sha256:" + hex.EncodeToString(sum[:])
}

func (d *draft) encode(now, expiry time.Time) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{
		AttrAggregate: text(d.partitionKey()), AttrID: text(d.first), AttrTopic: text(d.topic),
		AttrEvents:    &types.AttributeValueMemberL{Value: d.events},
		AttrCreatedAt: number(now.UnixMilli()), AttrExpiry: number(expiry.Unix()),
	}
	if d.key != nil {
		item[AttrKey] = binary(d.key)
	}
	return item
}

// encodeEvent copies what the event holds, which stays the caller's.
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

// ErrNotAnItem says that an item is not one of an outbox. The error tells why.
var ErrNotAnItem = errors.New("dynamooutbox: the item is not one of an outbox")

// Decode reads an item, as it stands in the table or as the new image in a stream. It returns ErrNotAnItem if it can't; what
// it could read of the item's key is then returned too.
func Decode(av map[string]types.AttributeValue) (Item, error) {
	d := decoder{item: av}
	it := Item{
		Aggregate: d.text(AttrAggregate), ID: d.text(AttrID),
		CreatedAt: time.UnixMilli(d.number(AttrCreatedAt)),
	}
	topic, key := d.text(AttrTopic), d.binary(AttrKey)
	list, isList := av[AttrEvents].(*types.AttributeValueMemberL)
	if !isList || len(list.Value) == 0 {
		d.fail(AttrEvents, "a list of at least one")
		list = &types.AttributeValueMemberL{}
	}
	for _, v := range list.Value {
		e := d.event(v)
		e.Topic, e.Key = topic, key
		it.Events = append(it.Events, e)
	}
	it.Aside, it.Requeued = d.texts(AttrAside), d.texts(AttrRequeued)
	if len(it.Aside) > 0 {
		it.AsideAt, it.Attempts, it.Failure = time.UnixMilli(d.number(AttrAsideAt)), int(d.number(AttrAttempts)), d.text(AttrFailure)
	}
	if d.err != nil {
		return Item{Aggregate: it.Aggregate, ID: it.ID}, fmt.Errorf("%w: %q, %q: %w", ErrNotAnItem, shorten([]byte(it.Aggregate)), it.ID, d.err)
	}
	return it, nil
}

// decoder reads attributes, and notes the first that is not as it must be.
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
			e.Headers = append(e.Headers, outbox.Header{Key: header.text(attrHeader), Value: header.binary(attrValue)})
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
		d.err = fmt.Errorf("of its attribute %s: %w", AttrEvents, inner.err)
	}
}

// shorten returns so much of a key as fits into a message.
func shorten(key []byte) []byte {
	const most = 64
	return key[:min(len(key), most)]
}
