package avro

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/avro"
)

// encoded makes the library leave values of logical types as they are encoded, which is their JSON. As Go values, not
// all of them can be encoded again: decimals with more digits than their precision, which Java reads, are an example.
var encoded = []avro.SchemaOpt{
	avro.CustomType{LogicalType: "decimal"}, avro.CustomType{LogicalType: "big-decimal"},
	avro.CustomType{LogicalType: "date"}, avro.CustomType{LogicalType: "duration"}, avro.CustomType{LogicalType: "uuid"},
	avro.CustomType{LogicalType: "time-millis"}, avro.CustomType{LogicalType: "time-micros"},
	avro.CustomType{LogicalType: "timestamp-millis"}, avro.CustomType{LogicalType: "local-timestamp-millis"},
	avro.CustomType{LogicalType: "timestamp-micros"}, avro.CustomType{LogicalType: "local-timestamp-micros"},
	avro.CustomType{LogicalType: "timestamp-nanos"}, avro.CustomType{LogicalType: "local-timestamp-nanos"},
}

// scalars have the schemas by which the library writes values whose JSON is not their text in Go.
var scalars = map[string]*avro.Schema{
	"float": avro.MustParse(`"float"`), "double": avro.MustParse(`"double"`),
	"bytes": avro.MustParse(`"bytes"`), "fixed": avro.MustParse(`"bytes"`),
	"string": avro.MustParse(`"string"`), "enum": avro.MustParse(`"string"`),
}

var errSameKey = errors.New("two keys of a map are one name in JSON, because they are not UTF-8")

// appendJSON appends the JSON of a value that was decoded with tagged unions. The library would write it by the first
// branch of a union that takes its Go value, and the entries of a map in random order.
func (c *counter) appendJSON(out []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, value), nil
	case int32:
		return strconv.AppendInt(out, int64(value), 10), nil
	case int64:
		return strconv.AppendInt(out, value, 10), nil
	case []any:
		return c.appendList(out, value)
	case map[string]any:
		switch c.avroType {
		case "union":
			return c.appendBranch(out, value)
		case "map":
			return c.appendMap(out, value)
		}
		return c.appendRecord(out, value)
	}
	by := scalars[c.avroType]
	if by == nil {
		return nil, fmt.Errorf("%w: a %T for %s", errUnfit, value, c.avroType)
	}
	text, err := by.EncodeJSON(value)
	return append(out, text...), unquoted(err)
}

func (c *counter) appendList(out []byte, items []any) (_ []byte, err error) {
	out = append(out, '[')
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = c.children[0].appendJSON(out, item); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func (c *counter) appendBranch(out []byte, tagged map[string]any) ([]byte, error) {
	for tag, value := range tagged {
		if i := slices.Index(c.names, tag); i >= 0 {
			return c.children[i].appendJSON(out, value)
		}
	}
	return nil, fmt.Errorf("%w: a branch of a union", errUnfit)
}

func (c *counter) appendRecord(out []byte, fields map[string]any) (_ []byte, err error) {
	out = append(out, '{')
	for i, name := range c.names {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = c.children[i].appendJSON(append(append(out, c.quoted[i]...), ':'), fields[name]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendMap appends the entries in the order of their names in JSON.
func (c *counter) appendMap(out []byte, entries map[string]any) ([]byte, error) {
	type entry struct {
		name  []byte
		value any
	}
	sorted := make([]entry, 0, len(entries))
	for key, value := range entries {
		name, err := scalars["string"].EncodeJSON(key)
		if err != nil {
			return nil, unquoted(err)
		}
		sorted = append(sorted, entry{name, value})
	}
	slices.SortFunc(sorted, func(a, b entry) int { return bytes.Compare(a.name, b.name) })
	out = append(out, '{')
	for i, e := range sorted {
		if i > 0 {
			out = append(out, ',')
			if bytes.Equal(e.name, sorted[i-1].name) {
				return nil, errSameKey
			}
		}
		var err error
		if out, err = c.children[0].appendJSON(append(append(out, e.name...), ':'), e.value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}
