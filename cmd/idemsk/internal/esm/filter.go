package esm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxFilters is Lambda's quota when it has been increased; it is 5 before.
const maxFilters = 10

// filters are the FilterCriteria: a record passes that one of them lets pass.
type filters []filter

// filter is one of them. It is for JSON values or for plain strings, by the form of its rule.
type filter struct {
	rule    pattern
	forJSON bool
}

// parseFilters reads {"Filters":[{"Pattern":"…"}]}.
func parseFilters(criteria string) (filters, error) {
	if criteria == "" {
		return nil, nil
	}
	var c struct {
		Filters []struct{ Pattern string }
	}
	d := json.NewDecoder(strings.NewReader(criteria))
	d.DisallowUnknownFields() // a pattern that is not under Filters would let everything pass
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf(`--filter-criteria: want {"Filters":[{"Pattern":"{\"value\":{\"a\":[1]}}"}]}: %w`, err)
	}
	if len(c.Filters) > maxFilters {
		return nil, fmt.Errorf("--filter-criteria has %d filters: Lambda takes 5, and %d when its quota is increased", len(c.Filters), maxFilters)
	}
	var all filters
	for i, one := range c.Filters {
		f, err := parseFilter(one.Pattern)
		if err != nil {
			return nil, fmt.Errorf("--filter-criteria: Filters[%d]: %w", i, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func parseFilter(text string) (filter, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return filter{}, fmt.Errorf("the pattern %q is no JSON object: %w", text, err)
	}
	rule, ok := members["value"]
	if !ok || len(members) > 1 {
		return filter{}, errors.New(`a pattern must have only the field "value": for Kafka, Lambda filters only on it`)
	}
	p, err := parsePattern(rule, "value")
	if err != nil {
		return filter{}, err
	}
	_, plain := p.(alternatives)
	return filter{rule: p, forJSON: !plain}, nil
}

// pass reports whether a record with this value is delivered. Where the forms of rule and value differ, or the value is no
// UTF-8, the rule does not apply, as the table of AWS has it: the record passes. A value that is null has no form either.
// https://docs.aws.amazon.com/lambda/latest/dg/kafka-filtering.html
func (all filters) pass(value []byte) bool {
	if len(all) == 0 || value == nil || !utf8.Valid(value) {
		return true
	}
	v, isJSON := jsonValue(value)
	for _, f := range all {
		if f.forJSON != isJSON || f.rule.matches(v, true) {
			return true
		}
	}
	return false
}

// jsonValue decodes a JSON object or list; anything else is a plain string.
func jsonValue(value []byte) (v any, isJSON bool) {
	if v, err := decode[any](value); err == nil {
		switch v.(type) {
		case map[string]any, []any:
			return v, true
		}
	}
	return string(value), false
}
