package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
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
		return step{name: name, index: noIndex}, s[1+end:], name != "" && !strings.ContainsAny(name, "]*?@(), '\"")
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

// document decodes a value. Its numbers are json.Number. A tombstone is ErrNoKey.
func document(value []byte) (doc any, err error) {
	if value == nil {
		return nil, fmt.Errorf("%w: it is a tombstone, which has no value", ErrNoKey)
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("the value (%d bytes) is not JSON: %w", len(value), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the value (%d bytes) is not JSON: there is data after the first %d bytes", len(value), dec.InputOffset())
	}
	return doc, nil
}

// lookup returns the elements at the paths in a document. If one is missing or null, it returns ErrNoKey and all elements that
// were found, nil for the missing ones.
func lookup(doc any, paths []path) ([]any, error) {
	found := make([]any, len(paths))
	var missing error
	for i, p := range paths {
		if found[i] = p.find(doc); found[i] == nil && missing == nil {
			missing = fmt.Errorf("%w: the value has no %s, or it is null", ErrNoKey, p)
		}
	}
	return found, missing
}

// find returns the element at the path, nil if there is none.
func (p path) find(v any) any {
	for _, s := range p.steps {
		switch node := v.(type) {
		case map[string]any:
			if s.index != noIndex {
				return nil
			}
			v = node[s.name]
		case []any:
			if s.index == noIndex || s.index >= len(node) {
				return nil
			}
			v = node[s.index]
		default:
			return nil
		}
	}
	return v
}
