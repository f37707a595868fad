package esm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxFilters is Lambda's quota after an increase. The default quota is 5.
const maxFilters = 10

// filters are the FilterCriteria. A record passes if it passes one of them.
type filters []filter

// filter is a filter. The form of its rule decides whether it is for JSON values or for plain strings.
type filter struct {
	rule    pattern
	forJSON bool
}

// parseFilters parses {"Filters":[{"Pattern":"…"}]}.
func parseFilters(criteria string) (filters, error) {
	if criteria == "" {
		return nil, nil
	}
	var c struct {
		Filters []struct{ Pattern string }
	}
	d := json.NewDecoder(strings.NewReader(criteria))
	d.DisallowUnknownFields() // a pattern outside Filters would have no effect
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
		return filter{}, fmt.Errorf("the pattern %q is not a JSON object: %w", text, err)
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

// pass reports whether a record with this value is delivered. If the forms of rule and value differ, or the
// value is not UTF-8 or null, the rule does not apply and the record passes, as in the table of AWS.
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

// jsonValue decodes a JSON object or list. Any other value is a plain string.
func jsonValue(value []byte) (v any, isJSON bool) {
	if v, err := decode[any](value); err == nil {
		switch v.(type) {
		case map[string]any, []any:
			return v, true
		}
	}
	return string(value), false
}
