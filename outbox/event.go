package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The headers that a relay adds to an event's own.
const (
	// IDHeader holds the event's ID. It is the relay's: an event can't have it itself.
	IDHeader = "event-id"
	// KeyHeader holds the event's ID too, unless the event has this header itself: it is where idemsk's consumers find the
	// idempotency key by default.
	KeyHeader = "idempotency-key"
)

// DefaultMaxSize is the most bytes that an event may have unless the store says otherwise: as many as a broker takes that is
// configured no further (max.message.bytes), less what the record's frame needs.
const DefaultMaxSize = 1_000_000

// ErrInvalidEvent says that an event can't be published. The error tells which, and why.
var ErrInvalidEvent = errors.New("outbox: invalid event")

// Event is what becomes a Kafka record.
type Event struct {
	// ID identifies the event for good. It is a UUID; where it is empty, Publish makes one that grows with time (version 7).
	ID string
	// Topic is the Kafka topic. It must exist when the event is relayed.
	Topic string
	// Key is the record's key. Events of one topic and key are relayed in order, those without key in any.
	Key []byte
	// Headers are the record's headers, in this order, behind those that the relay adds. None may be named IDHeader.
	Headers []Header
	// Value is the record's value; nil is a tombstone.
	Value []byte
}

// Header is a header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// Size returns how many bytes the event's record has: topic, key, value and headers, with what frames them at most.
func (e *Event) Size() int {
	const frame, headerFrame = 112, 16
	size := frame + len(e.Topic) + len(e.Key) + len(e.Value)
	for _, h := range e.RecordHeaders() {
		size += headerFrame + len(h.Key) + len(h.Value)
	}
	return size
}

// RecordHeaders returns the headers of the event's record: those that a relay adds, and the event's own.
func (e *Event) RecordHeaders() []Header {
	headers := make([]Header, 0, len(e.Headers)+2)
	headers = append(headers, Header{Key: IDHeader, Value: []byte(e.ID)})
	if !slices.ContainsFunc(e.Headers, func(h Header) bool { return h.Key == KeyHeader }) {
		headers = append(headers, Header{Key: KeyHeader, Value: []byte(e.ID)})
	}
	return append(headers, e.Headers...)
}

// Prepare returns events as a Recorder gets them: with their IDs, which are in lower case. It returns ErrInvalidEvent, naming
// every event at fault. An event may have up to maxSize bytes; 0 stands for DefaultMaxSize. It is for stores.
func Prepare(events []Event, maxSize int) ([]Event, error) {
	prepared := slices.Clone(events)
	var errs []error
	seen := make(map[string]bool, len(events))
	for i := range prepared {
		e := &prepared[i]
		if e.ID == "" {
			e.ID = newID()
		}
		e.ID = strings.ToLower(e.ID)
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
	uuid      = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// validate reports all that is wrong with an event.
func (e *Event) validate(maxSize int) error {
	var errs []error
	if !uuid.MatchString(e.ID) {
		errs = append(errs, errors.New("its ID is not a UUID: want xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, or none to have one made"))
	}
	switch {
	case e.Topic == "":
		errs = append(errs, errors.New("it has no topic"))
	case !topicName.MatchString(e.Topic), e.Topic == ".", e.Topic == "..":
		errs = append(errs, errors.New("a topic can't have that name: want up to 249 letters, digits, '.', '_' and '-'"))
	}
	for _, h := range e.Headers {
		switch {
		case h.Key == IDHeader:
			errs = append(errs, fmt.Errorf("the header %s is the relay's: set the event's ID", IDHeader))
		case h.Key == "":
			errs = append(errs, errors.New("a header has no name"))
		case !utf8.ValidString(h.Key) || strings.ContainsRune(h.Key, 0):
			errs = append(errs, fmt.Errorf("the header %q has a name that is not UTF-8, or has a NUL in it", h.Key))
		}
	}
	if size := e.Size(); size > maxSize {
		errs = append(errs, fmt.Errorf("it has %d bytes and may have %d: publish where to find the data instead of the data", size, maxSize))
	}
	return errors.Join(errs...)
}

// describe names the event in an error.
func (e *Event) describe() string {
	const most = 64
	key := e.Key
	if len(key) > most {
		key = key[:most]
	}
	return fmt.Sprintf("event %q to topic %q, key %q", e.ID, e.Topic, key)
}
