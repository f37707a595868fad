package esm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pattern is a filter rule for a JSON value, in the language of EventBridge.
// https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html#filtering-syntax
type pattern interface {
	// present is false if the value has no such field.
	matches(v any, present bool) bool
}

// parsePattern parses a rule: an object that names fields, or a list of alternatives for a single value.
func parsePattern(raw json.RawMessage, path string) (pattern, error) {
	switch first := bytes.TrimSpace(raw); {
	case len(first) > 0 && first[0] == '{':
		return parseFields(raw, path)
	case len(first) > 0 && first[0] == '[':
		return parseAlternatives(raw, path)
	}
	return nil, fmt.Errorf("%s is %s: want an object, or a list of values such as [\"a\"]", path, raw)
}

// fields match an object if each named field matches.
type fields map[string]pattern

func parseFields(raw json.RawMessage, path string) (pattern, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%s is empty: name a field", path)
	}
	f := make(fields, len(members))
	for name, rule := range members {
		var p pattern
		var err error
		if name == "$or" {
			p, err = parseEither(rule, path+".$or")
		} else {
			p, err = parsePattern(rule, path+"."+name)
		}
		if err != nil {
			return nil, err
		}
		f[name] = p
	}
	return f, nil
}

func (f fields) matches(v any, present bool) bool {
	if list, ok := v.([]any); ok { // one of the objects must match
		return slices.ContainsFunc(list, func(item any) bool { return f.matches(item, true) })
	}
	object, _ := v.(map[string]any)
	for name, p := range f {
		if name == "$or" {
			if !p.matches(v, present) {
				return false
			}
			continue
		}
		value, ok := object[name]
		if !p.matches(value, ok) {
			return false
		}
	}
	return true
}

// either matches if one of its objects of fields matches.
type either []pattern

func parseEither(raw json.RawMessage, path string) (pattern, error) {
	var rules []json.RawMessage
	if err := json.Unmarshal(raw, &rules); err != nil || len(rules) == 0 {
		return nil, fmt.Errorf("%s is %s: want a list of objects", path, raw)
	}
	var e either
	for i, rule := range rules {
		p, err := parseFields(rule, path+"["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		e = append(e, p)
	}
	return e, nil
}

func (e either) matches(v any, present bool) bool {
	return slices.ContainsFunc(e, func(p pattern) bool { return p.matches(v, present) })
}

// alternatives match a value if one of them matches, and a list if they match one of its values.
type alternatives []test

// test tests a single value.
type test func(v any, present bool) bool

func parseAlternatives(raw json.RawMessage, path string) (pattern, error) {
	rules, err := decode[[]any](raw)
	if err != nil || len(rules) == 0 {
		return nil, fmt.Errorf("%s is %s: want a list with at least one value", path, raw)
	}
	var a alternatives
	for _, rule := range rules {
		t, err := parseTest(rule)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		a = append(a, t)
	}
	return a, nil
}

func (a alternatives) matches(v any, present bool) bool {
	if list, ok := v.([]any); ok && len(list) > 0 {
		return slices.ContainsFunc(list, func(item any) bool { return a.matches(item, true) })
	}
	if _, object := v.(map[string]any); object { // not a leaf
		v, present = nil, false
	}
	return slices.ContainsFunc(a, func(t test) bool { return t(v, present) })
}

// parseTest parses an alternative: a value that must be equal, or an object with one operator.
func parseTest(rule any) (test, error) {
	operator, ok := rule.(map[string]any)
	if !ok {
		if _, list := rule.([]any); list {
			return nil, errors.New("a list is nested in a list")
		}
		return equals(rule), nil
	}
	if len(operator) != 1 {
		return nil, fmt.Errorf("an object with an operator must have no other field, this has %d",
			len(operator))
	}
	for name, operand := range operator {
		return parseOperator(name, operand)
	}
	return nil, errors.New("unreachable")
}

func parseOperator(name string, operand any) (test, error) {
	text, isText := operand.(string)
	onText := func(f func(v string) bool) (test, error) {
		if !isText {
			return nil, fmt.Errorf("%s wants a string, not %v", name, operand)
		}
		return func(v any, _ bool) bool { s, ok := v.(string); return ok && f(s) }, nil
	}
	switch name {
	case "prefix":
		return onText(func(v string) bool { return strings.HasPrefix(v, text) })
	case "suffix":
		return onText(func(v string) bool { return strings.HasSuffix(v, text) })
	case "equals-ignore-case":
		return onText(func(v string) bool { return strings.EqualFold(v, text) })
	case "exists":
		want, ok := operand.(bool)
		if !ok {
			return nil, fmt.Errorf("exists wants true or false, not %v", operand)
		}
		return func(_ any, present bool) bool { return present == want }, nil
	case "anything-but":
		return anythingBut(operand)
	case "numeric":
		return numeric(operand)
	}
	return nil, fmt.Errorf("the operator %q is not supported by Lambda: want prefix, suffix, equals-ignore-case, anything-but, numeric or exists", name)
}

// equals compares numbers by their text, as Lambda does: 300 is not equal to 300.0.
func equals(want any) test {
	return func(v any, present bool) bool { return present && v == want }
}

func anythingBut(operand any) (test, error) {
	not, ok := operand.([]any)
	if !ok {
		not = []any{operand}
	}
	for _, v := range not {
		switch v.(type) {
		case string, json.Number:
		default:
			return nil, fmt.Errorf("anything-but wants strings or numbers, not %v", v)
		}
	}
	if len(not) == 0 {
		return nil, errors.New("anything-but has an empty list")
	}
	return func(v any, present bool) bool { return present && !slices.Contains(not, v) }, nil
}

// numeric parses pairs of comparison and number, such as [">", 0, "<=", 5].
func numeric(operand any) (test, error) {
	const most = 4 // two pairs
	list, _ := operand.([]any)
	if len(list) == 0 || len(list)%2 != 0 || len(list) > most {
		return nil, fmt.Errorf(`numeric wants one or two comparisons such as [">", 0, "<=", 5], not %v`,
			operand)
	}
	var all []func(float64) bool
	for i := 0; i < len(list); i += 2 {
		compare, err := comparison(list[i], list[i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, compare)
	}
	return func(v any, _ bool) bool {
		n, ok := v.(json.Number)
		if !ok {
			return false
		}
		f, err := n.Float64()
		return err == nil && !slices.ContainsFunc(all,
			func(holds func(float64) bool) bool { return !holds(f) })
	}, nil
}

func comparison(operator, number any) (func(float64) bool, error) {
	n, ok := number.(json.Number)
	if !ok {
		return nil, fmt.Errorf("numeric wants a number behind %v, not %v", operator, number)
	}
	bound, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("numeric: %w", err)
	}
	switch operator {
	case "=":
		return func(v float64) bool { return v == bound }, nil
	case "<":
		return func(v float64) bool { return v < bound }, nil
	case "<=":
		return func(v float64) bool { return v <= bound }, nil
	case ">":
		return func(v float64) bool { return v > bound }, nil
	case ">=":
		return func(v float64) bool { return v >= bound }, nil
	}
	return nil, fmt.Errorf("numeric has the comparison %v: want =, <, <=, > or >=", operator)
}

// decode decodes JSON. Numbers keep their text.
func decode[T any](raw []byte) (v T, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return v, err
	}
	if d.More() {
		return v, errors.New("there is text after the JSON")
	}
	return v, nil
}
