package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// The defaults of Config.
const (
	DefaultMaxSchemas = 1000
	DefaultTimeout    = 3 * time.Second
	DefaultRetryAfter = time.Second
)

// Config configures a Decoder.
type Config struct {
	// Registry has the schemas.
	Registry Registry
	// Formats are the data formats besides JSON. With jsonschema.Format, JSON is validated against its
	// schema, otherwise not.
	Formats []Format
	// SourceEvents must be true if Lambda's event source has a schema registry with EventRecordFormat SOURCE:
	// it then delivers encoded data without framing. Otherwise values that it has looked up a schema for are
	// taken to be JSON.
	SourceEvents bool
	// Limits bound what a value can grow to when it is decoded.
	Limits Limits
	// MaxSchemas is the maximum number of schemas that are kept (default DefaultMaxSchemas).
	MaxSchemas int
	// Timeout is the maximum time to fetch a schema with all that it refers to (default DefaultTimeout).
	Timeout time.Duration
	// RetryAfter is how long a schema is not fetched again after a failure (default DefaultRetryAfter). If
	// the registry gave no answer in time, no other schema is fetched for that time either.
	RetryAfter time.Duration
}

// Decoder decodes the values and keys of records. It is safe for concurrent use. A process should have one.
type Decoder struct {
	registry     Registry
	sourceEvents bool
	limits       Limits
	types        cache
}

// New returns a decoder. It returns idem.ErrInvalidConfig (wrapped) for an invalid configuration.
func New(cfg Config) (*Decoder, error) {
	if cfg.Registry == nil || cfg.MaxSchemas < 0 || cfg.Timeout < 0 || cfg.RetryAfter < 0 ||
		cfg.Limits.MaxBytes < 0 || cfg.Limits.MaxElements < 0 {
		return nil, fmt.Errorf("schema: %w: want a Registry, and no negative numbers", idem.ErrInvalidConfig)
	}
	formats := map[string]Format{JSON: jsonFormat{}}
	for _, f := range cfg.Formats {
		formats[f.DataFormat()] = f
	}
	return &Decoder{
		registry: cfg.Registry, sourceEvents: cfg.SourceEvents, limits: cfg.Limits,
		types: cache{
			registry: cfg.Registry, formats: formats, limits: cfg.Limits, entries: make(map[string]*entry),
			size:    orDefault(cfg.MaxSchemas, DefaultMaxSchemas),
			timeout: orDefault(cfg.Timeout, DefaultTimeout),
			keep:    orDefault(cfg.RetryAfter, DefaultRetryAfter),
		},
	}, nil
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// part is a record's value or key.
type part struct {
	Part

	name   string
	schema *kafka.Schema // what the event source says about it; nil: it is framed
}

func valueOf(r *kafka.Record) part {
	return part{Part{Data: r.Value, Headers: r.Headers}, "value", r.ValueSchema}
}

func keyOf(r *kafka.Record) part {
	return part{Part{Data: r.Key, Key: true, Headers: r.Headers}, "key", r.KeySchema}
}

// The errors that can't be about a schema.
var (
	errTombstone = errors.New("the record is a tombstone (its value is null): handle tombstones in a kafka.HandlerFunc that checks Record.Tombstone")
	errNoKey     = errors.New("the record has no key")
)

// Decode decodes a record's value into the value that the pointer into points to. Its error is marked by
// idem.Unavailable if the schema can't be fetched now, otherwise by idem.Permanent.
func (d *Decoder) Decode(ctx context.Context, r *kafka.Record, into any) error {
	if r.Value == nil {
		return idem.Permanent(errTombstone)
	}
	return d.decode(ctx, valueOf(r), into)
}

// DecodeKey is Decode for the record's key.
func (d *Decoder) DecodeKey(ctx context.Context, r *kafka.Record, into any) error {
	if r.Key == nil {
		return idem.Permanent(errNoKey)
	}
	return d.decode(ctx, keyOf(r), into)
}

func (d *Decoder) decode(ctx context.Context, p part, into any) error {
	id, payload, typ, err := d.lookUp(ctx, p)
	if err != nil {
		return err
	}
	if p.schema != nil && !d.sourceEvents {
		if err = d.limits.checkJSON(payload); err == nil {
			err = recovered(func() error { return typ.FromJSON(payload, into) })
		}
	} else if err = d.check(payload, typ); err == nil {
		err = recovered(func() error { return typ.Decode(payload, into) })
	}
	return d.permanent(p, id, err)
}

// recovered calls a method of a Type, and returns a panic as an error: that of a library for one value must not
// fail the other records of a call. The value of the panic, which can quote the data, is left out.
func recovered(method func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("decoding it panicked (%T)", v)
		}
	}()
	return method()
}

// check applies the limits that need no schema. Types of other formats than JSON count elements themselves.
func (d *Decoder) check(payload []byte, typ compiled) error {
	if typ.dataFormat == JSON {
		return d.limits.checkJSON(payload)
	}
	return d.limits.Meter().AddBytes(len(payload))
}

// convert returns encoded data as JSON. Both are within the limits.
func (d *Decoder) convert(payload []byte, typ compiled) ([]byte, error) {
	if err := d.check(payload, typ); err != nil {
		return nil, err
	}
	var out []byte
	err := recovered(func() (err error) { out, err = typ.ToJSON(payload); return err })
	if err == nil && typ.dataFormat != JSON {
		err = d.limits.checkJSON(out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// lookUp returns the type of data, and the data without its framing.
func (d *Decoder) lookUp(ctx context.Context, p part) (id string, payload []byte, typ compiled, err error) {
	var framed Framed
	if p.schema != nil {
		framed = Framed{ID: p.schema.ID, Payload: p.Data}
	} else if framed, err = d.registry.Unframe(p.Part); err != nil {
		return "", nil, compiled{}, idem.Permanent(
			fmt.Errorf("the %s (%d bytes) has no framing of %s: %w", p.name, len(p.Data), d.registry, err))
	}
	if typ, err = d.types.get(ctx, framed.ID); err != nil && !idem.IsUnavailable(err) {
		err = idem.Permanent(fmt.Errorf("the %s: %w", p.name, err))
	}
	if err != nil || framed.Index == nil || typ.dataFormat != Protobuf {
		return framed.ID, framed.Payload, typ, err
	}
	if len(framed.Index) == 0 {
		return framed.ID, nil, typ, d.permanent(p, framed.ID,
			errors.New("its header has no index of the message type behind the ID of the schema"))
	}
	return framed.ID, slices.Concat(framed.Index, framed.Payload), typ, nil
}

// permanent marks an error in data. Nil stays nil.
func (d *Decoder) permanent(p part, id string, err error) error {
	if err == nil {
		return nil
	}
	return idem.Permanent(fmt.Errorf("the %s (%d bytes) can't be decoded by the schema %s of %s: %w", p.name,
		len(p.Data), id, d.registry, err))
}

// JSON returns a record's value as JSON, nil for a tombstone. With kafka.OfValue keys and fingerprints are
// taken from it. Its errors are those of Decode.
func (d *Decoder) JSON(ctx context.Context, r *kafka.Record) ([]byte, error) {
	return d.toJSON(ctx, valueOf(r))
}

func (d *Decoder) toJSON(ctx context.Context, p part) ([]byte, error) {
	if p.Data == nil {
		return nil, nil
	}
	if p.schema != nil && !d.sourceEvents {
		return p.Data, d.permanent(p, p.schema.ID, d.limits.checkJSON(p.Data))
	}
	id, payload, typ, err := d.lookUp(ctx, p)
	if err != nil {
		return nil, err
	}
	out, err := d.convert(payload, typ)
	return out, d.permanent(p, id, err)
}

// Converted is a value or a key as an event source with a schema registry delivers it.
type Converted struct {
	Schema kafka.Schema
	// Source is the encoded data without its framing, and JSON the same as JSON.
	Source, JSON []byte
}

// Convert validates framed data against its schema and converts it. Its errors are those of Decode. If the
// registry does not know the schema, the error wraps ErrUnknown.
func (d *Decoder) Convert(ctx context.Context, data []byte) (Converted, error) {
	return d.convertPart(ctx, part{Part: Part{Data: data}, name: "data"})
}

func (d *Decoder) convertPart(ctx context.Context, p part) (Converted, error) {
	id, payload, typ, err := d.lookUp(ctx, p)
	if err != nil {
		return Converted{}, err
	}
	out, err := d.convert(payload, typ)
	return Converted{Schema: kafka.Schema{ID: id, DataFormat: typ.dataFormat}, Source: payload, JSON: out},
		d.permanent(p, id, err)
}

// ConvertValue replaces a record's value by JSON, and sets its ValueSchema, as an event source with a schema
// registry does in the format JSON. It changes neither a tombstone nor a value that an event source has
// converted. Its errors are those of Decode.
func (d *Decoder) ConvertValue(ctx context.Context, r *kafka.Record) error {
	return d.replace(ctx, valueOf(r), &r.Value, &r.ValueSchema)
}

// ConvertKey is ConvertValue for the record's key.
func (d *Decoder) ConvertKey(ctx context.Context, r *kafka.Record) error {
	return d.replace(ctx, keyOf(r), &r.Key, &r.KeySchema)
}

func (d *Decoder) replace(ctx context.Context, p part, data *[]byte, s **kafka.Schema) error {
	if p.Data == nil || p.schema != nil && !d.sourceEvents {
		return nil
	}
	converted, err := d.convertPart(ctx, p)
	if err == nil {
		*data, *s = converted.JSON, &converted.Schema
	}
	return err
}

// RecordKey is a kafka.KeyFunc that returns the decoded key of the Kafka record: a scalar as text, anything
// else as JSON with sorted names. So a key is the same after its schema got another version. A null key is
// kafka.ErrNoKey. A text with U+FFFD is an error, as with kafka.JSONKey.
func (d *Decoder) RecordKey(ctx context.Context, r *kafka.Record) (string, error) {
	data, err := d.toJSON(ctx, keyOf(r))
	if err != nil {
		return "", err
	}
	var key any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&key); err != nil && len(data) > 0 {
		return "", fmt.Errorf("the key is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("the key is not JSON: there is text behind it")
	}
	switch key := key.(type) {
	case nil:
		return "", fmt.Errorf("%w: its Kafka key is null", kafka.ErrNoKey)
	case string:
		return unambiguous(key)
	}
	text, err := json.Marshal(key)
	if err != nil {
		return "", fmt.Errorf("the idempotency key can't be encoded: %w", err)
	}
	return unambiguous(string(text))
}

// unambiguous returns the key, unless it has what takes the place of text that is not UTF-8 in JSON.
func unambiguous(key string) (string, error) {
	if strings.ContainsRune(key, utf8.RuneError) {
		return "", errors.New("the idempotency key contains U+FFFD, the replacement of text that is not UTF-8: it is ambiguous")
	}
	return key, nil
}

// Handler returns a kafka.HandlerFunc that calls f with the decoded value. A tombstone is a permanent failure.
// The result of f is stored as JSON (see kafka.EncodeResult).
func Handler[T, R any](d *Decoder, f func(ctx context.Context, value T, r kafka.Record) (R,
	error)) kafka.HandlerFunc {
	return func(ctx context.Context, r kafka.Record) ([]byte, error) {
		var value T
		if err := d.Decode(ctx, &r, &value); err != nil {
			return nil, err
		}
		result, err := f(ctx, value, r)
		if err != nil {
			return nil, err
		}
		return kafka.EncodeResult(result)
	}
}
