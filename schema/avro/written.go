package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/avro"
)

// anyName admits names that are outside of the specification.
var anyName = avro.WithLaxNames(func(string) error { return nil })

// parseWritten parses a schema with which data was written. It admits what Java's library admits when it reads
// with the schemas of a registry: any names, comments, and defaults, aliases and logical types that are
// invalid. Decoding uses neither defaults nor aliases of the writer, and the specification says that an invalid
// logical type is ignored. named has the types of the schemas that this one refers to.
func parseWritten(text string, named *avro.SchemaCache, options ...avro.SchemaOpt) (*avro.Schema, error) {
	decoder := json.NewDecoder(strings.NewReader(withoutComments(text)))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not JSON: there is text behind it")
	}
	used, err := json.Marshal(usedOf(tree))
	if err != nil {
		return nil, fmt.Errorf("it can't be encoded: %w", err)
	}
	return named.Parse(string(used), append([]avro.SchemaOpt{anyName}, options...)...)
}

// attributes are the attributes of each type that decoding uses. All other types are primitive or named.
var attributes = map[any][]string{
	"record": {"type", "name", "namespace", "fields"},
	"error":  {"type", "name", "namespace", "fields"},
	"enum":   {"type", "name", "namespace", "symbols"},
	"fixed":  {"type", "name", "namespace", "size", "logicalType", "precision", "scale"},
	"array":  {"type", "items"},
	"map":    {"type", "values"},
}

var primitive = []string{"type", "logicalType", "precision", "scale"}

// usedOf returns what decoding uses of a part of a schema.
func usedOf(part any) any {
	switch part := part.(type) {
	case []any:
		for i := range part {
			part[i] = usedOf(part[i])
		}
	case map[string]any:
		return typeOf(part)
	}
	return part
}

// typeOf returns the attributes of a type, or of the type of a field.
func typeOf(definition map[string]any) map[string]any {
	name, isName := definition["type"].(string)
	names := primitive
	if found := attributes[name]; isName && found != nil {
		names = found
	}
	used := make(map[string]any, len(names))
	for _, attribute := range names {
		value := definition[attribute]
		if value == nil { // Java takes null for none
			continue
		}
		switch attribute {
		case "fields":
			value = fieldsOf(value)
		case "type", "items", "values":
			value = usedOf(value)
		}
		used[attribute] = value
	}
	if used["logicalType"] == "decimal" && !isDecimal(definition) {
		for _, attribute := range []string{"logicalType", "precision", "scale"} {
			delete(used, attribute)
		}
	}
	return used
}

// fieldsOf returns the names and types of the fields of a record. A field can have the attributes of its type
// itself, which the library takes for those of the type.
func fieldsOf(fields any) any {
	list, _ := fields.([]any)
	for i := range list {
		if field, ok := list[i].(map[string]any); ok {
			used := typeOf(field)
			used["name"] = field["name"]
			list[i] = used
		}
	}
	return fields
}

// isDecimal reports whether a type, or that of a field, can be a decimal.
func isDecimal(definition map[string]any) bool {
	precision, ok := whole(definition, "precision")
	scale, scaled := whole(definition, "scale")
	if _, written := definition["scale"]; written && !scaled {
		return false
	}
	return ok && precision > 0 && scale >= 0 && scale <= precision && precision <= digitsOf(definition)
}

// digitsOf returns the number of decimal digits of the numbers that a type, or that of a field, holds: as many
// as one wants in bytes.
func digitsOf(definition map[string]any) int {
	switch kind := definition["type"].(type) {
	case map[string]any:
		return digitsOf(kind)
	case []any:
		for _, branch := range kind {
			if branch != "null" {
				return digitsOf(map[string]any{"type": branch})
			}
		}
	case string:
		if size, ok := whole(definition, "size"); ok && kind == "fixed" {
			return int(math.Floor(float64(8*size-1) * math.Log10(2))) //nolint:mnd // bits, one of which is the sign
		}
		if kind == "bytes" {
			return math.MaxInt
		}
	}
	return 0
}

// whole returns an attribute that is a whole number.
func whole(definition map[string]any, attribute string) (int, bool) {
	number, _ := definition[attribute].(json.Number)
	n, err := strconv.Atoi(string(number))
	return n, err == nil
}

// withoutComments returns JSON without comments as Java has them.
func withoutComments(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		end := 1
		switch {
		case strings.HasPrefix(text, "//"):
			text = text[endOf(text, "\n"):]
			continue
		case strings.HasPrefix(text, "/*"):
			text = text[endOf(text, "*/"):]
			continue
		case text[0] == '"':
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
		}
		out.WriteString(text[:end])
		text = text[end:]
	}
	return out.String()
}

// endOf returns the end of a comment that ends with last, or with the text.
func endOf(text, last string) int {
	const begin = 2 // characters
	if i := strings.Index(text[begin:], last); i >= 0 {
		return begin + i + len(last)
	}
	return len(text)
}
