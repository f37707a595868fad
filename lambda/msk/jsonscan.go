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

// maxDepth is how deeply a payload may nest its objects and arrays: the bound of encoding/json. Without one, a few
// megabytes of "[" would exhaust the stack.
const maxDepth = 10_000

// scanner pulls the parts of a JSON document out of data in one pass, accepting exactly what encoding/json accepts.
// It hands out pieces of data and never copies them.
//
// The first error sticks: it stays in err and moves pos to the end of data, so that every loop over the scanner ends
// and a caller needs to look at err only when it is done.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   error
}

// raw is one JSON value as it stands in the payload, already checked for syntax and without space around it. A field
// that was not there is nil.
type raw []byte

// failf keeps the first error and stops the scan.
func (s *scanner) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: "+format, append([]any{ErrNotKafka}, args...)...)
	}
	s.pos = len(s.data)
}

// syntax fails with the position, and with what should have stood there.
func (s *scanner) syntax(want string) {
	if s.pos >= len(s.data) {
		s.failf("the payload is not JSON: it ends after %d bytes, where %s should follow", len(s.data), want)
		return
	}
	s.failf("the payload is not JSON: byte %d is %q, where %s should be", s.pos, s.data[s.pos], want)
}

// peek skips white space and returns the byte that is next, 0 at the end.
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

// open enters an object or array whose bracket peek has just shown, and reports whether it has a member. Together with
// next, which closes it:
//
//	for more := s.open('{'); more; more = s.next('}') {
func (s *scanner) open(bracket byte) (more bool) {
	if s.depth++; s.depth > maxDepth {
		s.failf("the payload nests deeper than %d levels at byte %d", maxDepth, s.pos)
		return false
	}
	s.pos++
	if s.peek() == bracket+2 { // in ASCII both } and ] stand two after their opening bracket
		s.pos++
		s.depth--
		return false
	}
	return true
}

// next moves behind the comma after a member, or behind the closing bracket, and reports whether a member follows.
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

// name consumes a member's name and its colon.
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

// value consumes one value of any type.
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

// end checks that nothing but white space is left.
func (s *scanner) end() {
	if s.peek(); s.pos < len(s.data) {
		s.syntax("the end")
	}
}

// str consumes a string, from its opening to its closing quote, and reports whether its bytes are what it means: all
// ASCII and none of them escaped.
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

// plain moves to the next byte that is a quote, a backslash, a control character or not ASCII, or to the last seven bytes
// of data if they come first. Most of a payload is base64, so this is where most of it goes by: eight bytes in a few
// instructions. Subtracting n from every byte at once borrows into the top bit of those smaller than n; a borrow spoils
// only the bytes above, so the lowest one found is right.
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

// escape consumes a backslash and what it escapes.
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

// number consumes a number, whose first byte is a minus or a digit.
func (s *scanner) number() {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++ // nothing but a fraction or an exponent may follow a leading zero
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

// shortBytes consumes integers from -128 to 255, each with the comma that follows at once in what Lambda writes, and
// appends them to out. It stops before the last of an array and before anything that is written otherwise; those are
// left for value.
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

// digits consumes one digit or more.
func (s *scanner) digits() {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		s.syntax("a digit")
	}
}

// literal consumes true, false or null.
func (s *scanner) literal(word string) {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		s.syntax(word)
		return
	}
	s.pos += len(word)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// absent reports whether the field was not there, or was null, which means the same.
func (v raw) absent() bool { return len(v) == 0 || v[0] == 'n' }

// isText, isNumber, isObject and isArray tell the value's type.
func (v raw) isText() bool   { return len(v) > 0 && v[0] == '"' }
func (v raw) isNumber() bool { return len(v) > 0 && (v[0] == '-' || isDigit(v[0])) }
func (v raw) isObject() bool { return len(v) > 0 && v[0] == '{' }
func (v raw) isArray() bool  { return len(v) > 0 && v[0] == '[' }

// text returns what a string means. It is a piece of the payload where nothing is escaped and all is ASCII, which is
// nearly always so; the rest, with its surrogates and invalid UTF-8, is encoding/json's.
func (v raw) text() []byte {
	inner := v[1 : len(v)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			var text string
			_ = json.Unmarshal(v, &text) // can't fail: by its syntax, which value has checked, v is a string
			return []byte(text)
		}
	}
	return inner
}

// integer returns the value of an integer that is written as one: 1e3 and 1.0 are none, as in encoding/json.
func (v raw) integer() (n int64, ok bool) {
	const short = 18 // digits that can't overflow
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

// kind names the value's type, for error messages about what may be confidential.
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

// String describes the value for error messages: a number or a short string as it stands, the rest by its type.
func (v raw) String() string {
	const short = 80
	if (v.isText() || v.isNumber()) && len(v) <= short {
		return string(v)
	}
	return v.kind()
}
