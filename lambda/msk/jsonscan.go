package msk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// maxDepth is the maximum nesting of objects and arrays, as in encoding/json. Without a limit, a few
// megabytes of "[" would exhaust the stack.
const maxDepth = 10_000

// scanner parses a JSON document in one pass, and accepts exactly what encoding/json accepts. The values it
// returns are parts of data; it copies nothing.
//
// The first error is kept in err and moves pos to the end of data, so that every loop over the scanner ends.
// A caller only needs to check err at the end.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   error
}

// raw is one JSON value of the payload, with valid syntax and without surrounding space. It is nil if the
// field is absent.
type raw []byte

// failf stores the first error and stops the scan.
func (s *scanner) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: "+format, append([]any{ErrNotKafka}, args...)...)
	}
	s.pos = len(s.data)
}

// syntax reports a syntax error with its position and the expected token.
func (s *scanner) syntax(want string) {
	if s.pos >= len(s.data) {
		s.failf("the payload is not JSON: it ends after %d bytes, where %s is expected", len(s.data), want)
		return
	}
	s.failf("the payload is not JSON: byte %d is %q, where %s is expected", s.pos, s.data[s.pos], want)
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		s.pos++
	}
	return 0
}

// open enters an object or array whose opening bracket peek has returned, and reports whether it has a
// member. It is used with next, which leaves it:
//
//	for more := s.open('{'); more; more = s.next('}') {
func (s *scanner) open(bracket byte) (more bool) {
	if s.depth++; s.depth > maxDepth {
		s.failf("the payload nests deeper than %d levels at byte %d", maxDepth, s.pos)
		return false
	}
	s.pos++
	if s.peek() == bracket+2 { // in ASCII } and ] come two after their opening bracket
		s.pos++
		s.depth--
		return false
	}
	return true
}

// next skips the comma after a member, or the closing bracket, and reports whether a member follows.
func (s *scanner) next(bracket byte) (more bool) {
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case bracket:
		s.pos++
		s.depth--
	default:
		s.syntax("a comma or " + string(bracket))
	}
	return false
}

// name parses a member's name and its colon.
func (s *scanner) name() []byte {
	if s.peek() != '"' {
		s.syntax("a name in quotes")
		return nil
	}
	start := s.pos
	ascii := s.str()
	if s.err != nil {
		return nil
	}
	name := s.data[start+1 : s.pos-1]
	if !ascii {
		name = raw(s.data[start:s.pos]).text()
	}
	if s.peek() != ':' {
		s.syntax("a colon")
		return nil
	}
	s.pos++
	return name
}

// value parses one value of any type.
func (s *scanner) value() raw {
	c := s.peek()
	start := s.pos
	switch {
	case c == '"':
		s.str()
	case c == '{':
		for more := s.open('{'); more; more = s.next('}') {
			s.name()
			s.value()
		}
	case c == '[':
		for more := s.open('['); more; more = s.next(']') {
			s.value()
		}
	case c == '-' || isDigit(c):
		s.number()
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.syntax("a value")
	}
	if s.err != nil {
		return nil
	}
	return s.data[start:s.pos]
}

// end checks that only white space is left.
func (s *scanner) end() {
	if s.peek(); s.pos < len(s.data) {
		s.syntax("the end")
	}
}

// str parses a string including its quotes, and reports whether it is all ASCII without escapes, so that its
// bytes are its value.
func (s *scanner) str() (ascii bool) {
	s.pos++
	for ascii = true; ; {
		s.plain()
		if s.pos >= len(s.data) {
			s.syntax("the end of a string")
			return false
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return ascii
		case c == '\\':
			ascii = false
			s.escape()
		case c < ' ':
			s.syntax("no control character")
			return false
		default:
			ascii = ascii && c < 0x80
			s.pos++
		}
	}
}

// plain moves to the next byte that is a quote, a backslash, a control character or not ASCII, or to the last
// seven bytes of data if they come first. It checks eight bytes at a time, because most of a payload is
// base64. Subtracting n from every byte at once borrows into the top bit of bytes smaller than n. A borrow
// affects only higher bytes, so the lowest byte found is correct.
func (s *scanner) plain() {
	const (
		ones = 0x0101010101010101
		tops = 0x80 * ones
	)
	for s.pos+8 <= len(s.data) {
		w := binary.LittleEndian.Uint64(s.data[s.pos:])
		quote, backslash := w^('"'*ones), w^('\\'*ones) // zero where the byte is one
		if found := (w | (w - ' '*ones) | (quote - ones) | (backslash - ones)) & tops; found != 0 {
			s.pos += bits.TrailingZeros64(found) / 8
			return
		}
		s.pos += 8
	}
}

// escape parses a backslash and the escaped character.
func (s *scanner) escape() {
	s.pos++
	switch {
	case s.pos >= len(s.data):
		return // str reports it
	case s.data[s.pos] == 'u':
		s.pos++
		for range 4 {
			if s.pos >= len(s.data) || !isHex(s.data[s.pos]) {
				s.syntax("a hexadecimal digit")
				return
			}
			s.pos++
		}
	case bytes.IndexByte([]byte(`"\/bfnrt`), s.data[s.pos]) < 0:
		s.syntax("a character that can be escaped")
	default:
		s.pos++
	}
}

// number parses a number, whose first byte is a minus or a digit.
func (s *scanner) number() {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++ // only a fraction or an exponent may follow a leading zero
	} else {
		s.digits()
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		s.digits()
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		s.digits()
	}
}

// shortBytes parses integers from -128 to 255, each followed directly by a comma, as Lambda writes them, and
// appends them to out. It stops before the last element of an array and before any other notation, which
// value parses.
func (s *scanner) shortBytes(out []byte) []byte {
	for {
		rest := s.data[s.pos:]
		i, n := 0, 0
		if len(rest) > 0 && rest[0] == '-' {
			i = 1
		}
		first := i
		for i < len(rest) && i < first+3 && isDigit(rest[i]) {
			n = 10*n + int(rest[i]-'0')
			i++
		}
		if first == 1 {
			n = -n
		}
		switch {
		case i == len(rest) || rest[i] != ',',
			i == first || rest[first] == '0' && i > first+1, // no digit, or a leading zero
			n < math.MinInt8 || n > math.MaxUint8:
			return out
		}
		out = append(out, byte(n))
		s.pos += i + 1
	}
}

// digits parses one or more digits.
func (s *scanner) digits() {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		s.syntax("a digit")
	}
}

// literal parses true, false or null.
func (s *scanner) literal(word string) {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		s.syntax(word)
		return
	}
	s.pos += len(word)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// absent reports whether the field is absent or null.
func (v raw) absent() bool { return len(v) == 0 || v[0] == 'n' }

// isText, isNumber, isObject and isArray report the value's type.
func (v raw) isText() bool   { return len(v) > 0 && v[0] == '"' }
func (v raw) isNumber() bool { return len(v) > 0 && (v[0] == '-' || isDigit(v[0])) }
func (v raw) isObject() bool { return len(v) > 0 && v[0] == '{' }
func (v raw) isArray() bool  { return len(v) > 0 && v[0] == '[' }

// text returns the value of a string. It is a part of the payload if the string is ASCII without escapes,
// which is the usual case. Otherwise encoding/json decodes it.
func (v raw) text() []byte {
	inner := v[1 : len(v)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			var text string
			_ = json.Unmarshal(v, &text) // can't fail: value has checked that v is a string
			return []byte(text)
		}
	}
	return inner
}

// integer returns the value of an integer. 1e3 and 1.0 are not integers, as in encoding/json.
func (v raw) integer() (n int64, ok bool) {
	const short = 18 // so many digits can't overflow
	if len(v) > short {
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	}
	digits := v
	if len(v) > 0 && v[0] == '-' {
		digits = v[1:]
	}
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(v) {
		n = -n
	}
	return n, len(digits) > 0
}

// kind returns the value's type, for error messages about confidential values.
func (v raw) kind() string {
	switch {
	case len(v) == 0:
		return "absent"
	case v.isObject():
		return "an object"
	case v.isArray():
		return "an array"
	case v.isText():
		return "a string"
	case v.isNumber():
		return "a number"
	}
	return string(v) // null, true or false
}

// String returns the value for error messages: a number or a short string in full, other values by their
// type.
func (v raw) String() string {
	const short = 80
	if (v.isText() || v.isNumber()) && len(v) <= short {
		return string(v)
	}
	return v.kind()
}
