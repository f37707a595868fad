package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/idemsk/idemsk/internal/uuid"
)

// The headers that a relay adds to those of an event.
const (
	// IDHeader contains the event's ID. Events must not have this header, in upper or lower case.
	IDHeader = "event-id"
	// KeyHeader contains the event's ID, unless the event has this header itself, in upper or lower case. It
	// is the default header of idempotency keys for idemsk's consumers.
	KeyHeader = "idempotency-key"
)

// DefaultMaxSize is the default maximum size of an event in bytes: the default max.message.bytes of a broker,
// less the overhead of a record batch.
const DefaultMaxSize = 1_000_000

// ErrInvalidEvent means that an event can't be published. The error names the event and the reason.
var ErrInvalidEvent = errors.New("outbox: invalid event")

// Event is an event to be sent as a Kafka record.
type Event struct {
	// ID is the permanent ID of the event, a UUID. If it is empty, Publish generates one that grows with time
	// (version 7).
	ID string
	// Topic is the Kafka topic. It must exist when the event is sent.
	Topic string
	// Key is the record's key. Events with the same topic and key are sent in order. Events without a key
	// (nil) have no order.
	Key []byte
	// Headers are the record's headers. They follow those that the relay adds. None may be named IDHeader.
	Headers []Header
	// Value is the record's value; nil is a tombstone.
	Value []byte
}

// Header is a header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// Size returns the maximum size in bytes of the event's record: topic, key, value and headers, and their
// overhead.
func (e *Event) Size() int {
	const frame, headerFrame = 112, 16
	size := frame + len(e.Topic) + len(e.Key) + len(e.Value)
	for _, h := range e.RecordHeaders() {
		size += headerFrame + len(h.Key) + len(h.Value)
	}
	return size
}

// RecordHeaders returns the headers of the event's record: those that a relay adds, then the event's own.
func (e *Event) RecordHeaders() []Header {
	headers := make([]Header, 0, len(e.Headers)+2)
	headers = append(headers, Header{Key: IDHeader, Value: []byte(e.ID)})
	if !slices.ContainsFunc(e.Headers, func(h Header) bool { return strings.EqualFold(h.Key, KeyHeader) }) {
		headers = append(headers, Header{Key: KeyHeader, Value: []byte(e.ID)})
	}
	return append(headers, e.Headers...)
}

// Prepare validates events and returns copies with their IDs, in lower case, and the headers of WithHeaders.
// An event may have up to maxSize bytes; 0 means DefaultMaxSize. If events are invalid, it returns
// ErrInvalidEvent (wrapped) and names each of them. Stores call it.
func Prepare(ctx context.Context, events []Event, maxSize int) ([]Event, error) {
	prepared := slices.Clone(events)
	var added []Header
	if of, ok := ctx.Value(headersKey{}).(func(context.Context) []Header); ok && len(events) > 0 {
		added = of(ctx)
	}
	var errs []error
	seen := make(map[string]bool, len(events))
	for i := range prepared {
		e := &prepared[i]
		if e.ID == "" {
			e.ID = uuid.New()
		}
		e.ID = strings.ToLower(e.ID)
		e.add(added)
		err := e.validate(cmp.Or(maxSize, DefaultMaxSize))
		if err == nil && seen[e.ID] {
			err = errors.New("another event of this call has the same ID")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: number %d, %s: %w", ErrInvalidEvent, i, e.describe(), err))
		}
		seen[e.ID] = true
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return prepared, nil
}

var (
	uuidForm  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// validate returns all faults of an event.
func (e *Event) validate(maxSize int) error {
	var errs []error
	if !uuidForm.MatchString(e.ID) {
		errs = append(errs, errors.New("its ID is not a UUID: want xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, or none to generate one"))
	}
	if err := e.CheckTopic(); err != nil {
		errs = append(errs, err)
	}
	for _, h := range e.Headers {
		switch {
		case strings.EqualFold(h.Key, IDHeader):
			errs = append(errs, fmt.Errorf("the header %s is reserved for the relay: set the event's ID",
				h.Key))
		case h.Key == "":
			errs = append(errs, errors.New("a header has no name"))
		case !utf8.ValidString(h.Key) || strings.ContainsRune(h.Key, 0):
			errs = append(errs, fmt.Errorf("the header %q has a name that is not UTF-8 or contains a NUL",
				h.Key))
		}
	}
	if size := e.Size(); size > maxSize {
		errs = append(errs, fmt.Errorf("it has %d bytes; the maximum is %d: publish a reference to the data instead of the data", size, maxSize))
	}
	return errors.Join(errs...)
}

// CheckTopic returns why Kafka can have no topic of the event's. Relays call it too, because other programs
// than Prepare may have written the event.
func (e *Event) CheckTopic() error {
	switch {
	case e.Topic == "":
		return errors.New("it has no topic")
	case !topicName.MatchString(e.Topic), e.Topic == ".", e.Topic == "..":
		return fmt.Errorf("the topic's name is invalid: want up to 249 letters, digits, '.', '_' and '-'; it has %d bytes, and begins with %q",
			len(e.Topic), e.Topic[:min(len(e.Topic), described)])
	}
	return nil
}

// add adds the headers whose names the event does not have.
func (e *Event) add(headers []Header) {
	own := e.Headers
	for _, h := range headers {
		if !slices.ContainsFunc(own, func(o Header) bool { return o.Key == h.Key }) {
			e.Headers = append(slices.Clip(e.Headers), h)
		}
	}
}

// described is the maximum number of bytes of a topic or a key in an error.
const described = 64

// describe identifies the event in an error.
func (e *Event) describe() string {
	short := func(s string) string { return s[:min(len(s), described)] }
	return fmt.Sprintf("event %q to topic %q, key %q", short(e.ID), short(e.Topic), short(string(e.Key)))
}
