// Package jsonschema validates JSON against its JSON Schema, of draft 4 to 2020-12.
package jsonschema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/idemsk/idemsk/internal/rawjson"
	"github.com/idemsk/idemsk/schema"
)

// Format is the schema.Format of JSON that is validated. Without it, a schema.Decoder reads JSON without
// looking at its schema. A schema without $schema is of draft 7. Values that an event source has converted
// are not validated again, because it has done so. Patterns can have what ECMAScript has, such as lookahead.
// All patterns that package regexp lacks together take at most a second for one value.
type Format struct {
	// MaxSteps is the maximum number of steps to validate a value (default DefaultMaxSteps). A step is one
	// part of the schema for one part of the value, and takes about half a kilobyte of memory and half a
	// microsecond.
	MaxSteps int
}

// DataFormat implements schema.Format.
func (Format) DataFormat() string { return schema.JSON }

// home is the address of a schema that has no $id.
const home = "registry:///schema.json"

// Compile implements schema.Format. Nothing is loaded but the schemas to which the registry says that this
// one refers.
func (f Format) Compile(s *schema.Schema) (typ schema.Type, err error) {
	defer func() { // from panics of the library
		if v := recover(); v != nil {
			typ, err = nil, fmt.Errorf("it can't be compiled: %v", v)
		}
	}()
	text, err := parse(s.Text)
	if err != nil {
		return nil, err
	}
	base, err := addressOf(text)
	if err != nil {
		return nil, err
	}
	known := references{}
	for _, ref := range s.References {
		at, err := base.Parse(ref.Name)
		if err == nil {
			known[at.String()], err = parse(ref.Text)
		}
		if err != nil {
			return nil, fmt.Errorf("the schema %q that it refers to: %w", ref.Name, err)
		}
	}
	base.Fragment = ""
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseLoader(known)
	counted := &steps{most: cmp.Or(f.MaxSteps, DefaultMaxSteps)}
	c.UseRegexpEngine(counted.pattern)
	if err := c.AddResource(base.String(), text); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(base.String())
	if err != nil {
		return nil, err
	}
	known[base.String()] = text
	return jsonType{schema: compiled, steps: counted,
		names: counted.watch(append(dynamic(c, known), compiled))}, nil
}

// addressOf returns the address of a schema: its own, in relation to home.
func addressOf(text any) (*url.URL, error) {
	base, err := url.Parse(home)
	if err != nil {
		return nil, err
	}
	object, _ := text.(map[string]any)
	for _, name := range []string{"$id", "id"} { // id is of draft 4
		if id, ok := object[name].(string); ok {
			if base, err = base.Parse(id); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			break
		}
	}
	return base, nil
}

// dynamic returns the parts that a $dynamicRef can find at validation, besides those that others refer to.
func dynamic(c *jsonschema.Compiler, documents references) (parts []*jsonschema.Schema) {
	var find func(at string, value any)
	find = func(at string, value any) {
		switch value := value.(type) {
		case map[string]any:
			if value["$dynamicAnchor"] != nil {
				if part, err := c.Compile(at); err == nil { // otherwise it is no schema, but a constant
					parts = append(parts, part)
				}
			}
			for name, item := range value {
				find(at+"/"+url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)), item)
			}
		case []any:
			for i, item := range value {
				find(fmt.Sprintf("%s/%d", at, i), item)
			}
		}
	}
	for address, document := range documents {
		find(address+"#", document)
	}
	return parts
}

func parse(text string) (any, error) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return value, checkNumbers(value)
}

// references are the schemas that another one refers to, by their addresses. It implements
// jsonschema.URLLoader.
type references map[string]any

// Load implements jsonschema.URLLoader.
func (r references) Load(address string) (any, error) {
	if found, ok := r[address]; ok {
		return found, nil
	}
	return nil, errors.New("it is not among the references of the schema in the registry")
}

type jsonType struct {
	schema *jsonschema.Schema
	steps  *steps          // its lock is held while a value is validated
	names  map[string]bool // of all properties in the schema
}

// Decode implements schema.Type.
func (t jsonType) Decode(data []byte, into any) error {
	if err := t.validate(data); err != nil {
		return err
	}
	return rawjson.Unmarshal(data, into)
}

// FromJSON implements schema.Type.
func (jsonType) FromJSON(data []byte, into any) error { return rawjson.Unmarshal(data, into) }

// ToJSON implements schema.Type.
func (t jsonType) ToJSON(data []byte) ([]byte, error) {
	if err := t.validate(data); err != nil {
		return nil, err
	}
	return data, nil
}

// validate returns an error if data is not valid. It recovers from panics: those of steps, of patterns, and of
// the library.
func (t jsonType) validate(data []byte) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case errSteps:
			err = fmt.Errorf("the schema takes more than %d steps to validate it (%d, and %d for each byte, at most %d: jsonschema.Format.MaxSteps)",
				t.steps.limit, minSteps, stepsPerByte, t.steps.most)
		case errPatternTime:
			err = errPatternTime
		default:
			err = fmt.Errorf("it can't be validated: %v", v)
		}
	}()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if err := checkNumbers(value); err != nil {
		return err
	}
	t.steps.Lock()
	defer t.steps.Unlock()
	t.steps.begin(len(data))
	err = t.schema.Validate(value)
	if invalid := (*jsonschema.ValidationError)(nil); errors.As(err, &invalid) {
		return errors.New("it is not valid: " + t.explain(invalid))
	}
	return err
}

// explain names the first place that is not valid, and the keyword of the schema. The texts of the library
// contain values, which do not belong in a log. Neither do names that the schema does not have, such as those
// of the entries of a map: the place has a * for them.
func (t jsonType) explain(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	place := slices.Clone(e.InstanceLocation)
	for i, name := range place {
		if !t.names[name] {
			place[i] = "*"
		}
	}
	text := "/" + strings.Join(place, "/") + " does not satisfy " +
		strings.Join(e.ErrorKind.KeywordPath(), "/")
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		text += ": it lacks " + strings.Join(k.Missing, ", ")
	case *kind.Type:
		text += ": it is " + k.Got + ", want " + strings.Join(k.Want, " or ")
	}
	return text
}
