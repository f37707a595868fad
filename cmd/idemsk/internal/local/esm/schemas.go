package esm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/schema"
)

// The formats in which records are delivered after their validation.
const (
	FormatJSON   = "JSON"   // converted to JSON
	FormatSource = "SOURCE" // as they were encoded, without the ID of the schema
)

// The attributes of a record that are validated.
const (
	AttributeKey   = "KEY"
	AttributeValue = "VALUE"
)

// SchemaRegistry are the parameters of SchemaRegistryConfig.
type SchemaRegistry struct {
	EventRecordFormat string   // FormatJSON or FormatSource
	Attributes        []string // AttributeKey, AttributeValue or both
}

func (s *SchemaRegistry) validate() error {
	var errs []error
	if s.EventRecordFormat != FormatJSON && s.EventRecordFormat != FormatSource {
		errs = append(errs, fmt.Errorf("--event-record-format is %q: want %s or %s", s.EventRecordFormat,
			FormatJSON, FormatSource))
	}
	known := func(a string) bool { return a == AttributeKey || a == AttributeValue }
	if len(s.Attributes) == 0 || !slices.ContainsFunc(s.Attributes, known) ||
		slices.ContainsFunc(s.Attributes, func(a string) bool { return !known(a) }) {
		errs = append(errs, fmt.Errorf("--schema-validation is %q: want %s, %s or both", s.Attributes,
			AttributeKey, AttributeValue))
	}
	return errors.Join(errs...)
}

// conversion is what the validation of a record found. It is kept in the record's context.
type conversion struct {
	keySchema, valueSchema *mskevent.Schema
	filtered               []byte // the value to which filters apply
	condition              string // under which the record is given up, if it is invalid
}

type conversionKey struct{}

// conversionOf returns the conversion of a record, nil if there is no schema registry.
func conversionOf(r *kgo.Record) *conversion {
	if r.Context == nil {
		return nil
	}
	c, _ := r.Context.Value(conversionKey{}).(*conversion)
	return c
}

// converting is a source that validates and converts the records of another one.
type converting struct {
	source
	config      *Config
	decoder     *schema.Decoder
	unavailable func(err error) // is called when the registry can't be asked; this is retried
	pending     []*kgo.Record   // read, and not converted yet
}

func (c *converting) poll(ctx context.Context, most int) (done []*kgo.Record, err error) {
	if len(c.pending) == 0 {
		if c.pending, err = c.source.poll(ctx, most); err != nil {
			return nil, err
		}
	}
	for n := 1; len(c.pending) > 0; {
		r, err := c.convert(ctx, c.pending[0])
		if err == nil {
			done, c.pending, n = append(done, r), c.pending[1:], 1
			continue
		}
		if ctx.Err() != nil {
			return done, nil //nolint:nilerr // the caller's time is over, and the rest is pending
		}
		c.unavailable(err)
		Wait(ctx, c.config.delay(n))
		n++
	}
	return done, nil
}

// errIDInHeader is the error of data without framing: Lambda's documentation knows the ID before the data alone.
var errIDInHeader = errors.New("the ID of the schema is in a header")

func idInHeader(r *kgo.Record, attribute string) bool {
	name := "__" + strings.ToLower(attribute) + "_schema_id"
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name && h.Value != nil })
}

// convert returns a record as it is delivered. Its only error is that the registry can't be asked.
func (c *converting) convert(ctx context.Context, r *kgo.Record) (*kgo.Record, error) {
	found := &conversion{filtered: r.Value}
	out := *r
	out.Context = context.WithValue(context.Background(), conversionKey{}, found)
	var errs [2]error
	for i, a := range []struct {
		name   string
		data   *[]byte
		schema **mskevent.Schema
	}{{AttributeKey, &out.Key, &found.keySchema}, {AttributeValue, &out.Value, &found.valueSchema}} {
		if *a.data == nil || !slices.Contains(c.config.SchemaRegistry.Attributes, a.name) {
			continue
		}
		if idInHeader(r, a.name) {
			errs[i] = errIDInHeader
			continue
		}
		converted, err := c.decoder.Convert(ctx, *a.data)
		if errs[i] = err; err != nil {
			continue
		}
		*a.schema = &mskevent.Schema{ID: converted.Schema.ID, DataFormat: converted.Schema.DataFormat}
		if *a.data = converted.JSON; c.config.SchemaRegistry.EventRecordFormat == FormatSource {
			*a.data = converted.Source
		}
		if a.name == AttributeValue {
			found.filtered = converted.JSON
		}
	}
	switch err := errors.Join(errs[:]...); {
	case idem.IsUnavailable(errs[0]):
		return nil, errs[0]
	case idem.IsUnavailable(errs[1]):
		return nil, errs[1]
	case errors.Is(err, schema.ErrUnknown):
		found.condition = SchemaNotFound
	case err != nil:
		found.condition = DeserializationError
	default:
		return &out, nil
	}
	out.Key, out.Value, found.keySchema, found.valueSchema = r.Key, r.Value, nil, nil
	return &out, nil
}
