package dynamofake

import (
	"errors"
	"slices"
	"strings"
)

const maxPlaceholderBytes = 255

// substitutions are the ExpressionAttributeNames and ExpressionAttributeValues of a request.
type substitutions struct {
	names     []substitution[string]
	values    []substitution[value]
	hasNames  bool
	hasValues bool
}

type substitution[T any] struct {
	placeholder string
	meaning     T
	used        bool
}

func find[T any](list []substitution[T], placeholder string) *T {
	for i := range list {
		if list[i].placeholder == placeholder {
			list[i].used = true
			return &list[i].meaning
		}
	}
	return nil
}

func unused[T any](parameter string, list []substitution[T]) error {
	var placeholders []string
	for i := range list {
		if !list[i].used {
			placeholders = append(placeholders, list[i].placeholder)
		}
	}
	if placeholders == nil {
		return nil
	}
	slices.Sort(placeholders)
	return invalid("Value provided in %s unused in expressions: keys: {%s}", parameter,
		strings.Join(placeholders, ", "))
}

// finish is called when all expressions of a request are bound. without describes those that the request does
// not have.
func (s *substitutions) finish(bound bool, without string) error {
	switch {
	case !bound && s.hasNames:
		return invalid("ExpressionAttributeNames can only be specified when using expressions")
	case !bound && s.hasValues:
		return invalid("ExpressionAttributeValues can only be specified when using expressions: %s", without)
	}
	if err := unused("ExpressionAttributeNames", s.names); err != nil {
		return err
	}
	return unused("ExpressionAttributeValues", s.values)
}

func (r *jsonReader) substitutionNames(s *substitutions) {
	const parameter = "ExpressionAttributeNames"
	s.hasNames = true
	r.open('{')
	for r.next('}') {
		placeholder := r.placeholder(parameter, '#')
		name := r.string()
		switch {
		case r.err != nil:
		case name == "":
			r.fail(invalid("%s contains invalid value: Empty attribute name for key %s", parameter,
				placeholder))
		case len(name) > maxNameBytes:
			r.fail(invalid("%s contains invalid value: Attribute name is too large, must be less than 65536 bytes for key %s",
				parameter, placeholder))
		}
		s.names = append(s.names, substitution[string]{placeholder: placeholder, meaning: name})
	}
	if len(s.names) == 0 {
		r.fail(invalid("%s must not be empty", parameter))
	}
}

func (r *jsonReader) substitutionValues(s *substitutions) {
	const parameter = "ExpressionAttributeValues"
	s.hasValues = true
	r.open('{')
	for r.next('}') {
		placeholder := r.placeholder(parameter, ':')
		wasFine := r.err == nil
		v := r.value(1)
		if wasFine && r.err != nil {
			r.err = inKey(r.err, placeholder)
		}
		s.values = append(s.values, substitution[value]{placeholder: placeholder, meaning: v})
	}
	if len(s.values) == 0 {
		r.fail(invalid("%s must not be empty", parameter))
	}
}

// placeholder reads the name of a member, which must be a placeholder.
func (r *jsonReader) placeholder(parameter string, sign byte) string {
	s := r.name()
	switch {
	case r.err != nil:
	case len(s) < 2 || s[0] != sign || wordLength(s[1:]) != len(s)-1:
		r.fail(invalid("%s contains invalid key: Syntax error; key: \"%s\"", parameter, s))
	case len(s) > maxPlaceholderBytes:
		r.fail(invalid("%s contains invalid key: The expression attribute map contains a key that is too long;", parameter))
	}
	return s
}

// inKey adds the placeholder whose value is invalid to a validation error.
func inKey(err error, placeholder string) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == "ValidationException" {
		return invalid("ExpressionAttributeValues contains invalid value: %s for key %s", e.Message,
			placeholder)
	}
	return err
}
