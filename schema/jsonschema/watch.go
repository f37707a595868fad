package jsonschema

import (
	"reflect"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// watch makes each part of compiled schemas count its work, by a format, which the library checks before what
// takes long. Values of const and enum it compares earlier: a part that has them becomes one with a format
// and with allOf, which has the part as it was. It returns the names of all properties in the schemas.
func (s *steps) watch(schemas []*jsonschema.Schema) (names map[string]bool) {
	w := watcher{steps: s, seen: make(map[*jsonschema.Schema]bool), names: make(map[string]bool)}
	w.parts(schemas)
	return w.names
}

type watcher struct {
	steps *steps
	seen  map[*jsonschema.Schema]bool
	names map[string]bool
}

// identity has the fields by which other parts find a part, which stay.
var identity = map[string]bool{
	"DraftVersion": true, "Location": true, "ID": true, "Anchor": true, "RecursiveAnchor": true,
	"DynamicAnchor": true,
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
	counted := w.workOf(s)
	format := &jsonschema.Format{Name: "steps", Validate: func(value any) error {
		counted.count(value)
		if was.Format == nil {
			return nil
		}
		return was.Format.Validate(value)
	}}
	compares := s.Enum != nil || s.Const != nil
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if field := fields.Type().Field(i); field.IsExported() && !identity[field.Name] {
			w.parts(fields.Field(i).Interface())
			if compares {
				fields.Field(i).SetZero()
			}
		}
	}
	s.Format = format
	if compares {
		s.AllOf = []*jsonschema.Schema{&was}
	}
}

// workOf returns the work of a part of a schema.
func (w watcher) workOf(s *jsonschema.Schema) *work {
	list := s.Items != nil || s.PrefixItems != nil || s.Items2020 != nil || isSchema(s.AdditionalItems)
	return &work{
		steps: w.steps, same: parts(s) + compared(s),
		members: ones(len(s.Properties) > 0 || isSchema(s.AdditionalProperties),
			s.UnevaluatedProperties != nil) + len(s.PatternProperties),
		names:  s.PropertyNames != nil,
		items:  ones(list, s.Contains != nil, s.UnevaluatedItems != nil),
		unique: s.UniqueItems, pattern: instructions(s.Pattern),
		patterns: instructionsOf(s.PatternProperties),
		compiled: s.Format != nil && s.Format.Name == "regex",
	}
}

// parts returns the number of parts within a part that are for the same value, or take as long as one.
func parts(s *jsonschema.Schema) int {
	n := len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.DependentSchemas) + len(s.Dependencies)
	for _, part := range []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		n += ones(part != nil)
	}
	return n + ones(s.DynamicRef != nil, s.MultipleOf != nil)
}

// compared returns the steps of comparing a value with those of const and enum. Comparing with a text is
// quick.
func compared(s *jsonschema.Schema) (n int) {
	const textsPerStep = 32
	if s.Const != nil {
		n += size(*s.Const)
	}
	if s.Enum == nil {
		return n
	}
	for _, value := range s.Enum.Values {
		if _, text := value.(string); !text {
			n += size(value)
		}
	}
	return n + len(s.Enum.Values)/textsPerStep
}

func ones(conditions ...bool) (n int) {
	for _, is := range conditions {
		if is {
			n++
		}
	}
	return n
}

func isSchema(field any) bool {
	s, ok := field.(*jsonschema.Schema)
	return ok && s != nil
}

// instructions returns the number of instructions of a pattern, which each byte of a text can take. With
// backtracking it is about that of its characters.
func instructions(pattern jsonschema.Regexp) int {
	if pattern == nil {
		return 0
	}
	if _, ok := pattern.(*backtracking); ok {
		return len(pattern.String())
	}
	parsed, err := syntax.Parse(pattern.String(), syntax.Perl)
	if err != nil {
		return 0 // not possible: it is compiled
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}

func instructionsOf(patterns map[jsonschema.Regexp]*jsonschema.Schema) (n int) {
	for pattern := range patterns {
		n += instructions(pattern)
	}
	return n
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
