package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// path is a JSONPath of names and indices only: $.a.b, $['a']["b"], $.a[0]. It selects at most one element.
type path struct {
	text  string
	steps []step
}

// step is a name, or an index if name is empty and index is not negative.
type step struct {
	name  string
	index int
}

const noIndex = -1

// String returns the path as it was written.
func (p path) String() string { return p.text }

func parsePaths(texts []string) ([]path, error) {
	if len(texts) == 0 {
		return nil, errors.New("kafka: no JSON path was given")
	}
	paths := make([]path, len(texts))
	for i, text := range texts {
		p, err := parsePath(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		paths[i] = p
	}
	return paths, nil
}

func parsePath(text string) (path, error) {
	p := path{text: text}
	rest, ok := strings.CutPrefix(text, "$")
	for ok && rest != "" {
		var s step
		if s, rest, ok = parseStep(rest); ok {
			p.steps = append(p.steps, s)
		}
	}
	if !ok || len(p.steps) == 0 {
		return path{}, fmt.Errorf("kafka: %q is not a JSON path of names and indices, like $.payment.id or $.items[0]['sku']", text)
	}
	return p, nil
}

// parseStep parses one .name, ['name'], ["name"] or [0] at the beginning of s.
func parseStep(s string) (st step, rest string, ok bool) {
	switch {
	case strings.HasPrefix(s, "."):
		end := strings.IndexAny(s[1:], ".[")
		if end < 0 {
			end = len(s) - 1
		}
		name := s[1 : 1+end]
		return step{name: name, index: noIndex}, s[1+end:],
			name != "" && !strings.ContainsAny(name, "]*?@(), '\"")
	case strings.HasPrefix(s, "['") || strings.HasPrefix(s, `["`):
		name, rest, found := strings.Cut(s[2:], s[1:2]+"]")
		return step{name: name, index: noIndex}, rest, found && name != ""
	case strings.HasPrefix(s, "["):
		digits, rest, found := strings.Cut(s[1:], "]")
		n, err := strconv.ParseUint(digits, 10, 31)
		return step{index: int(n)}, rest, found && err == nil
	}
	return step{}, "", false
}

// maxElements is the maximum number of elements of lists and objects in the JSON that a key or a fingerprint
// is made of. Others are passed over.
const maxElements = 100_000

// document checks that a value is JSON, and returns it without blanks around it. A tombstone is ErrNoKey.
func document(value []byte) ([]byte, error) {
	if value == nil {
		return nil, fmt.Errorf("%w: it is a tombstone, which has no value", ErrNoKey)
	}
	if err := rawjson.Check(value); err != nil {
		return nil, fmt.Errorf("the value (%d bytes) is not JSON: %w", len(value), err)
	}
	return bytes.TrimSpace(value), nil
}

// find returns the element at the path. If it is missing or null, it returns ErrNoKey.
func (p path) find(doc []byte) ([]byte, error) {
	element := doc
	for _, s := range p.steps {
		element = s.find(element)
	}
	if element == nil || string(element) == "null" {
		return nil, fmt.Errorf("%w: the value has no %s, or it is null", ErrNoKey, p)
	}
	return element, nil
}

// find returns the part of an element that the step leads to, nil if there is none. Of several members of one
// name it is the last one, as for encoding/json.
func (s step) find(element []byte) (found []byte) {
	if len(element) == 0 || element[0] != '{' && element[0] != '[' ||
		(element[0] == '{') != (s.index == noIndex) {
		return nil
	}
	i := 0
	_ = rawjson.Parts(element, func(name string, start, end int) error { // returns no error
		if name == s.name && s.index == noIndex || i == s.index {
			found = element[start:end]
		}
		i++
		return nil
	})
	return found
}

// decodedAt decodes the elements at the paths in a document. If one is missing or null, it returns ErrNoKey
// and all elements that were found, nil for the missing ones.
func decodedAt(doc []byte, paths []path, decode func(element []byte) (any, error)) ([]any, error) {
	found := make([]any, len(paths))
	var missing error
	elements := 0
	for i, p := range paths {
		element, err := p.find(doc)
		if err != nil {
			if missing == nil {
				missing = err
			}
			continue
		}
		if elements += rawjson.Elements(element); elements > maxElements {
			return nil, fmt.Errorf("what is at the paths has more than %d elements: name smaller parts of the value", maxElements)
		}
		if found[i], err = decode(element); err != nil {
			return nil, err
		}
	}
	return found, missing
}

// decodeElement decodes JSON. Its numbers are json.Number.
func decodeElement(element []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(element))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}
