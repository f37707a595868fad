package dynamofake

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonReader reads one JSON document. It keeps the first error, which ends every loop, so callers check err
// once, at the end. Strings share the memory of the document. encoding/json would take longer than the rest
// of a request.
type jsonReader struct {
	text  string
	pos   int
	first bool // just behind an opening bracket: no comma comes before the next element
	err   error
}

func (r *jsonReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// peek skips white space and returns the next byte, or 0 at the end and after an error.
func (r *jsonReader) peek() byte {
	if r.err != nil {
		return 0
	}
	for ; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) expect(c byte) {
	if r.peek() != c {
		r.fail(malformed("malformed JSON at byte %d: expected %q", r.pos, c))
		return
	}
	r.pos++
}

// open enters an object or an array.
func (r *jsonReader) open(bracket byte) {
	r.expect(bracket)
	r.first = true
}

// next reports whether there is another element, and leaves the object or array when there is none.
func (r *jsonReader) next(bracket byte) bool {
	if r.peek() == bracket {
		r.pos++
		r.first = false
		return false
	}
	if !r.first {
		r.expect(',')
	}
	r.first = false
	return r.err == nil
}

// name reads a member's name, up to its value.
func (r *jsonReader) name() string {
	s := r.string()
	r.expect(':')
	return s
}

// end requires that nothing follows the document, and returns the reader's error.
func (r *jsonReader) end() error {
	if r.peek() != 0 || r.pos < len(r.text) {
		r.fail(malformed("malformed JSON at byte %d: more follows the document", r.pos))
	}
	return r.err
}

// null consumes a null, if there is one. DynamoDB treats it as an absent member.
func (r *jsonReader) null() bool { return r.peek() == 'n' && r.literal("null") }

// fields reads an object and returns the name of each field that is not null. The caller reads its value.
func (r *jsonReader) fields() iter.Seq[string] {
	return func(yield func(string) bool) {
		r.open('{')
		for r.next('}') {
			if name := r.name(); !r.null() && !yield(name) {
				return
			}
		}
	}
}

// list reads an array whose elements one reads.
func list[T any](r *jsonReader, one func() T) (elements []T) {
	r.open('[')
	for r.next(']') {
		elements = append(elements, one())
	}
	return elements
}

func (r *jsonReader) literal(word string) bool {
	if !strings.HasPrefix(r.text[r.pos:], word) {
		return false
	}
	r.pos += len(word)
	return true
}

func (r *jsonReader) bool() bool {
	switch c := r.peek(); {
	case c == 't' && r.literal("true"):
		return true
	case c == 'f' && r.literal("false"):
		return false
	}
	r.fail(malformed("malformed JSON at byte %d: expected true or false", r.pos))
	return false
}

func (r *jsonReader) int() int {
	r.peek()
	start := r.pos
	for r.pos < len(r.text) && (r.text[r.pos] == '-' || r.text[r.pos] >= '0' && r.text[r.pos] <= '9') {
		r.pos++
	}
	n, err := strconv.Atoi(r.text[start:r.pos])
	if err != nil {
		r.fail(malformed("malformed JSON at byte %d: expected an integer", start))
	}
	return n
}

func (r *jsonReader) string() string {
	r.expect('"')
	if r.err != nil {
		return ""
	}
	start := r.pos
	escaped, ascii := false, true
	for ; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; {
		case c == '"':
			s := r.text[start:r.pos]
			r.pos++
			if !escaped && (ascii || utf8.ValidString(s)) {
				return s
			}
			return r.unquote(r.text[start-1 : r.pos])
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			escaped = true
			r.pos++
		case c < ' ':
			r.fail(malformed("malformed JSON at byte %d: control character in a string", r.pos))
			return ""
		}
	}
	r.fail(malformed("malformed JSON at byte %d: unfinished string", start))
	return ""
}

// unquote decodes strings with escapes or with bytes that are not UTF-8.
func (r *jsonReader) unquote(quoted string) string {
	var s string
	if err := json.Unmarshal([]byte(quoted), &s); err != nil {
		r.fail(malformed("malformed JSON before byte %d: %v", r.pos, err))
	}
	return s
}

// appendEach appends elements with commas between them.
func appendEach[T any](out []byte, elements []T, appendOne func([]byte, *T) []byte) []byte {
	for i := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendOne(out, &elements[i])
	}
	return out
}

func appendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[start:i]...)
		start = i + 1
		if c >= ' ' {
			out = append(out, '\\', c)
		} else {
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(out, s[start:]...), '"')
}
