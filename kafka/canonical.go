package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// This file writes canonical JSON by RFC 8785: members are sorted by name, there is no white space, and
// numbers and strings have one form.

// Errors of keys and fingerprints do not quote a value: the log and the dead letter show them, also if the
// keys are to be hashed.

// errAmbiguousText means that a text contains what JSON decoders put in the place of text that is not UTF-8.
var errAmbiguousText = errors.New("contains U+FFFD, the replacement of text that is not UTF-8: it is ambiguous")

// object has the members of a JSON object, sorted as in canonical JSON.
type object []member

type member struct {
	name, order string
	value       any
}

// utf16Order replaces the first bytes of the characters from U+E000 to U+FFFF by greater ones. The bytes of
// texts are then in the order of their code units in UTF-16, in which these characters are behind those of
// two units.
var utf16Order = strings.NewReplacer("\xee", "\xf8", "\xef", "\xf9")

// decodeUnique decodes a document whose canonical form is defined: no object has two members of one name. Its
// numbers are json.Number, and its objects of the type object.
func decodeUnique(doc []byte) (any, error) {
	if rawjson.Elements(doc) > maxElements {
		return nil, fmt.Errorf("the value has more than %d elements, too many for canonical JSON: hash its bytes, or take the key from a path", maxElements)
	}
	value, _, err := uniqueValue(doc, 0)
	return value, err
}

// uniqueValue decodes the value that begins at start.
func uniqueValue(doc []byte, start int) (value any, end int, err error) {
	switch doc[start] {
	case '{':
		return uniqueMembers(doc, start)
	case '[':
		var list []any
		end, err = rawjson.Each(doc, start, func(_ string, start int) (int, error) {
			element, end, err := uniqueValue(doc, start)
			list = append(list, element)
			return end, err
		})
		return list, end, err
	}
	end = rawjson.Skip(doc, start)
	switch scalar := doc[start:end]; scalar[0] {
	case 'n':
		return nil, end, nil
	case 't', 'f':
		return scalar[0] == 't', end, nil
	case '"':
		return rawjson.Text(scalar), end, nil
	default:
		return json.Number(scalar), end, nil
	}
}

func uniqueMembers(doc []byte, start int) (members object, end int, err error) {
	end, err = rawjson.Each(doc, start, func(name string, start int) (int, error) {
		value, end, err := uniqueValue(doc, start)
		members = append(members, member{name, utf16Order.Replace(name), value})
		return end, err
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.order, b.order) })
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name { // a name may be personal data
			return nil, 0, errors.New("the value has two members of one name in an object: its canonical JSON is not defined")
		}
	}
	return members, end, nil
}

// appendCanonical appends the canonical JSON of a value that decodeUnique has decoded.
func appendCanonical(out []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case json.Number:
		return appendNumber(out, v.String())
	case string:
		return appendText(out, v)
	case []any:
		out = append(out, '[')
		for i, element := range v {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = appendCanonical(out, element); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case object:
		return appendObject(out, v)
	case bool:
		return strconv.AppendBool(out, v), nil
	}
	return append(out, "null"...), nil
}

func appendObject(out []byte, members object) (_ []byte, err error) {
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendText(out, m.name); err != nil {
			return nil, err
		}
		if out, err = appendCanonical(append(out, ':'), m.value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendText appends a string. Only quotes, backslashes and control characters are escaped.
func appendText(out []byte, text string) ([]byte, error) {
	if strings.ContainsRune(text, utf8.RuneError) {
		return nil, fmt.Errorf("a text %w", errAmbiguousText)
	}
	const short, names = "\b\t\n\f\r\"\\", `btnfr"\`
	out = append(out, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case strings.IndexByte(short, c) >= 0:
			out = append(out, '\\', names[strings.IndexByte(short, c)])
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"'), nil
}

// maxExact is the number below which a double holds every whole number and no other is rounded to it.
const maxExact = 1 << 53

// appendNumber appends a number as ECMAScript writes the double that is nearest to it. A whole number that no
// double holds is an error, because two of them would be the same.
func appendNumber(out []byte, text string) ([]byte, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return nil, errors.New("a number can't be a double, as canonical JSON requires: send it as a string")
	case f == 0:
		return append(out, '0'), nil // also for -0
	case math.Abs(f) >= maxExact && !strings.ContainsAny(text, "eE") &&
		strconv.FormatFloat(f, 'f', 0, 64) != text:
		return nil, errors.New("a number is not exact as a double, as canonical JSON requires: send it as a string")
	}
	const least, most = 1e-6, 1e21 // within, ECMAScript writes no exponent
	if abs := math.Abs(f); abs >= least && abs < most {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	// Go writes at least two digits of an exponent, ECMAScript as few as possible.
	number := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(number, "e")
	return append(out, mantissa+"e"+exponent[:1]+strings.TrimLeft(exponent[1:], "0")...), nil
}
