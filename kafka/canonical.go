package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file writes canonical JSON by RFC 8785: members are sorted by name, there is no white space, and numbers and strings have
// one form.

// Errors of keys and fingerprints do not quote a value: the log and the dead letter show them, also if the keys are to be hashed.

// errAmbiguousText means that a text contains what JSON decoders put in the place of text that is not UTF-8.
var errAmbiguousText = errors.New("contains U+FFFD, the replacement of text that is not UTF-8: it is ambiguous")

// canonicalDocument decodes a JSON document whose canonical form is defined: no object has two members of one name.
func canonicalDocument(value []byte) (any, error) {
	doc, err := document(value)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	return doc, uniqueNames(dec)
}

// uniqueNames reads one value. It returns an error if an object in it has two members of one name.
func uniqueNames(dec *json.Decoder) error {
	token, err := dec.Token()
	opening, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	names := make(map[json.Token]bool)
	for dec.More() {
		if opening == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			if names[name] {
				return errors.New("the value has two members of one name in an object: its canonical JSON is not defined")
			}
			names[name] = true
		}
		if err := uniqueNames(dec); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// appendCanonical appends the canonical JSON of a decoded value, whose numbers are json.Number.
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
	case map[string]any:
		return appendObject(out, v)
	case bool:
		return strconv.AppendBool(out, v), nil
	}
	return append(out, "null"...), nil
}

func appendObject(out []byte, members map[string]any) (_ []byte, err error) {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendText(out, name); err != nil {
			return nil, err
		}
		if out, err = appendCanonical(append(out, ':'), members[name]); err != nil {
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

// appendNumber appends a number as ECMAScript writes the double that is nearest to it. A whole number that no double holds is an
// error, because two of them would be the same.
func appendNumber(out []byte, text string) ([]byte, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return nil, errors.New("a number can't be a double, as canonical JSON requires: send it as a string")
	case f == 0:
		return append(out, '0'), nil // also for -0
	case math.Abs(f) >= maxExact && !strings.ContainsAny(text, "eE") && strconv.FormatFloat(f, 'f', 0, 64) != text:
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
