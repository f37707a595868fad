package mskevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// This file reads JSON in place: a value is a part of the text, and nothing is copied. All but valid need text that is valid.

// valid returns an error for a text that is not a JSON object.
func valid(text []byte) error {
	if !json.Valid(text) {
		return json.Unmarshal(text, new(json.RawMessage)) // says where it is wrong
	}
	return object(text)
}

// object returns an error for a value that is not an object.
func object(text []byte) error {
	if text[blanks(text, 0)] != '{' {
		return errors.New("it is not a JSON object")
	}
	return nil
}

// fields calls f for each member of an object, in order.
func fields(text []byte, f func(key string, value []byte) error) error {
	if err := object(text); err != nil {
		return err
	}
	return parts(text, func(key string, start, end int) error { return f(key, text[start:end:end]) })
}

// parts calls f for each member of an object, or for each element of a list without a key, in order. The value is text[start:end].
func parts(text []byte, f func(key string, start, end int) error) error {
	i := blanks(text, 0)
	inObject := text[i] == '{'
	for i = blanks(text, i+1); text[i] != '}' && text[i] != ']'; {
		key := ""
		if inObject {
			end := skip(text, i)
			key = unquoted(text[i:end])
			i = blanks(text, blanks(text, end)+len(":"))
		}
		end := skip(text, i)
		if err := f(key, i, end); err != nil {
			return err
		}
		if i = blanks(text, end); text[i] == ',' {
			i = blanks(text, i+1)
		}
	}
	return nil
}

// skip returns the end of the value that begins at i.
func skip(text []byte, i int) int {
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

// unquoted returns the text of a JSON string.
func unquoted(quoted []byte) (s string) {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	_ = json.Unmarshal(quoted, &s) // the text is valid
	return s
}
