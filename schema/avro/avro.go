// Package avro decodes Avro.
package avro

import (
	"errors"
	"fmt"

	"github.com/twmb/avro"

	"github.com/idemsk/idemsk/schema"
)

// Format is the schema.Format of Avro. Values are decoded into structs with tags such as `avro:"name"`, maps,
// or any. Fields that a struct lacks are skipped.
type Format struct{ reader, jsonReader *avro.Schema }

// Reader returns a Format with the schema that the program expects, which must keep to the specification. Data
// that was written with another version is resolved to it: fields are matched by name and alias, missing ones
// get their defaults. All values of a schema with a branch of a union, or a symbol without a default, that the
// reader lacks are refused. The zero Format gives the program what was written.
func Reader(text string) (Format, error) {
	reader, err := avro.Parse(text)
	if err != nil {
		return Format{}, fmt.Errorf("the schema of the reader: %w", err)
	}
	jsonReader, err := avro.Parse(text, encoded...)
	if err != nil {
		return Format{}, fmt.Errorf("the schema of the reader: %w", err)
	}
	return Format{reader, jsonReader}, nil
}

// DataFormat implements schema.Format.
func (Format) DataFormat() string { return schema.Avro }

// Compile implements schema.Format. A schema that can't be resolved to that of the reader is an error.
func (f Format) Compile(s *schema.Schema) (schema.Type, error) {
	typ, err := parseAll(s)
	if err != nil {
		return nil, err
	}
	asJSON, err := parseAll(s, encoded...)
	if err != nil {
		return nil, err
	}
	written, err := counters{}.of(typ.Root(), "")
	if err != nil {
		return nil, err
	}
	shown := written
	if f.reader != nil {
		if typ, err = avro.Resolve(typ, f.reader); err != nil {
			return nil, err
		}
		if asJSON, err = avro.Resolve(asJSON, f.jsonReader); err != nil {
			return nil, err
		}
		if shown, err = (counters{}).of(f.reader.Root(), ""); err != nil {
			return nil, err
		}
	}
	return avroType{schema: typ, asJSON: asJSON, written: written, shown: shown, limits: s.Limits}, nil
}

// parseAll parses a schema and those that it refers to.
func parseAll(s *schema.Schema, options ...avro.SchemaOpt) (*avro.Schema, error) {
	var known avro.SchemaCache
	for _, ref := range s.References {
		if _, err := parseWritten(ref.Text, &known, options...); err != nil {
			return nil, fmt.Errorf("the schema %q that it refers to: %w", ref.Name, err)
		}
	}
	return parseWritten(s.Text, &known, options...)
}

type avroType struct {
	schema  *avro.Schema
	asJSON  *avro.Schema // for ToJSON
	written *counter
	shown   *counter // of a decoded value
	limits  schema.Limits
}

var errTrailing = errors.New("there are bytes behind the value")

// Decode implements schema.Type.
func (t avroType) Decode(data []byte, into any) error {
	return t.decode(t.schema, data, into, avro.SkipUnknown())
}

func (t avroType) decode(by *avro.Schema, data []byte, into any, options ...avro.Opt) error {
	rest, err := t.written.count(data, t.limits.Meter(), "", 0)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return errTrailing
	}
	_, err = by.Decode(data, into, options...)
	return unquoted(err)
}

// FromJSON implements schema.Type. Values of unions may be tagged with their type or not. An object that is not is the
// first record of the union that has the same fields, or a map.
func (t avroType) FromJSON(data []byte, into any) error {
	if tagged, err := t.written.tagged(data); err == nil { // otherwise the library says what is wrong
		data = tagged
	}
	return unquoted(t.schema.DecodeJSON(data, into, avro.SkipUnknown()))
}

// ToJSON implements schema.Type. Values of unions are not tagged with their type. One value has one text: the
// fields of records are in the order of the schema, and the entries of maps in that of their names.
func (t avroType) ToJSON(data []byte) ([]byte, error) {
	var value any
	if err := t.decode(t.asJSON, data, &value, avro.TaggedUnions()); err != nil {
		return nil, err
	}
	return t.shown.appendJSON(nil, value)
}

var errUnfit = errors.New("it does not fit the schema, or the Go type of the handler")

// unquoted returns an error of the library without what it quotes of a value: only the field and its types.
// Nil stays nil.
func unquoted(err error) error {
	var wrong *avro.SemanticError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return errUnfit
	case wrong.GoType == nil:
		return fmt.Errorf("%w: the field %s", errUnfit, wrong.Field)
	}
	return &avro.SemanticError{GoType: wrong.GoType, AvroType: wrong.AvroType, Field: wrong.Field}
}
