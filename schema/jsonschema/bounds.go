package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of a number. The library calculates with all digits of a number, also with those that its exponent stands for.
const (
	maxExponent = 1000
	maxDigits   = 1000
)

// checkNumbers returns an error if a number in JSON is beyond the bounds.
func checkNumbers(value any) error {
	switch value := value.(type) {
	case json.Number:
		return checkNumber(string(value))
	case []any:
		for _, item := range value {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range value {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNumber(number string) error {
	if len(number) > maxDigits {
		return fmt.Errorf("a number has %d characters, the limit is %d", len(number), maxDigits)
	}
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		if exponent, err := strconv.Atoi(number[i+1:]); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return fmt.Errorf("a number has an exponent beyond %d", maxExponent)
		}
	}
	return nil
}

// The bound of the work for one value. A schema that refers to one part several times at each of some levels takes exponentially many steps. A
// step is one part of the schema for one part of the value.
const (
	minSteps     = 20_000
	stepsPerByte = 10 // an element has at least two bytes
	maxSteps     = 250_000
)

// steps counts the steps of one validation after another.
type steps struct {
	sync.Mutex
	taken, limit int
}

// errSteps is the value of a panic, because the library has no other way to end a validation.
var errSteps = errors.New("too many steps")

// begin admits the steps for a value of the given size. The caller has the lock.
func (s *steps) begin(size int) { s.taken, s.limit = 0, min(minSteps+stepsPerByte*size, maxSteps) }

// take counts a step. The library copies the names or indexes of what it has not evaluated, so that large parts count more.
func (s *steps) take(value any) error {
	s.taken++
	switch value := value.(type) {
	case map[string]any:
		s.taken += len(value) / 16
	case []any:
		s.taken += len(value) / 16
	}
	if s.taken > s.limit {
		panic(errSteps)
	}
	return nil
}

// watch makes each part of compiled schemas count its steps. The part becomes one with a format, which the library checks first and which
// counts, and with allOf, which has the part as it was. It returns the names of all properties in the schemas.
func (s *steps) watch(schemas []*jsonschema.Schema) (names map[string]bool) {
	w := watcher{
		format: &jsonschema.Format{Name: "steps", Validate: s.take}, seen: make(map[*jsonschema.Schema]bool), names: make(map[string]bool),
	}
	w.parts(schemas)
	return w.names
}

type watcher struct {
	format *jsonschema.Format
	seen   map[*jsonschema.Schema]bool
	names  map[string]bool
}

// identity has the fields by which other parts find a part, which stay.
var identity = map[string]bool{
	"DraftVersion": true, "Location": true, "ID": true, "Anchor": true, "RecursiveAnchor": true, "DynamicAnchor": true,
}

func (w watcher) schema(s *jsonschema.Schema) {
	if s == nil || w.seen[s] || s.Bool != nil {
		return
	}
	w.seen[s] = true
	for name := range s.Properties {
		w.names[name] = true
	}
	was := *s
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if field := fields.Type().Field(i); field.IsExported() && !identity[field.Name] {
			w.parts(fields.Field(i).Interface())
			fields.Field(i).SetZero()
		}
	}
	s.Format, s.AllOf = w.format, []*jsonschema.Schema{&was}
}

// parts watches the schemas in a field of a schema.
func (w watcher) parts(field any) {
	switch field := field.(type) {
	case *jsonschema.Schema:
		w.schema(field)
	case *jsonschema.DynamicRef:
		if field != nil {
			w.schema(field.Ref)
		}
	case []*jsonschema.Schema:
		for _, s := range field {
			w.schema(s)
		}
	case map[string]*jsonschema.Schema:
		for _, s := range field {
			w.schema(s)
		}
	case map[jsonschema.Regexp]*jsonschema.Schema:
		for _, s := range field {
			w.schema(s)
		}
	case map[string]any: // dependencies: names or schemas
		for _, s := range field {
			w.parts(s)
		}
	}
}
