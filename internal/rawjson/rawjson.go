// Package rawjson reads JSON in place: a value is a part of the text, and nothing is decoded.
package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Check returns the error of encoding/json for a text that is not JSON.
func Check(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	return json.Unmarshal(text, new(json.RawMessage)) // says where it is wrong
}

// Elements counts the elements of lists and the members of objects, also within each other. The text need not
// be valid: it counts the commas and the beginnings of lists and objects.
func Elements(text []byte) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// Parts calls f for each member of an object, or for each element of a list without a key, in order. The
// value is text[start:end]. The text must be a valid object or list.
func Parts(text []byte, f func(key string, start, end int) error) error {
	_, err := Each(text, blanks(text, 0), func(key string, start int) (int, error) {
		end := Skip(text, start)
		return end, f(key, start, end)
	})
	return err
}

// Each is Parts for the object or list that begins at start, with a function that finds the end of a value
// itself. It returns the end of the object or list.
func Each(text []byte, start int, f func(key string, start int) (end int, err error)) (end int, err error) {
	inObject := text[start] == '{'
	i := blanks(text, start+1)
	for text[i] != '}' && text[i] != ']' {
		key := ""
		if inObject {
			end := Skip(text, i)
			key = Text(text[i:end])
			i = blanks(text, blanks(text, end)+len(":"))
		}
		if i, err = f(key, i); err != nil {
			return 0, err
		}
		if i = blanks(text, i); text[i] == ',' {
			i = blanks(text, i+1)
		}
	}
	return i + 1, nil
}

// Skip returns the end of the value that begins at i.
func Skip(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			for depth == 0 && i+1 < len(text) && strings.IndexByte(",]} \t\r\n", text[i+1]) < 0 {
				i++ // a number, true, false or null
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// blanks returns the end of the blanks that begin at i.
func blanks(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// Text returns the text of a JSON string.
func Text(quoted []byte) (s string) {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	_ = json.Unmarshal(quoted, &s) // the text is valid
	return s
}
