// Package term formats output for a terminal: escaped text, tables, ages and a live view.
package term

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape makes text from other sources (a key, a header, an error) safe to print. Characters that are not
// printable are escaped as in a Go string (\x1b, \n, \u202e), because a terminal executes control characters,
// and those that change the direction of text disguise it.
func Escape(s string) string { return escape(s, false) }

// EscapeLines is Escape for text of several lines. It keeps line breaks and tabs.
func EscapeLines(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)): // an invalid byte
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r), lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// Cut shortens text to width runes. The last rune is then an ellipsis.
func Cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(0, width-1)]) + "…"
}

// JSON encodes v in one line or, with an indent, in several. It escapes all characters in strings that are
// not printable; encoding/json escapes only those in ASCII.
func JSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	out := make([]byte, 0, b.Len())
	for _, r := range b.String() {
		if r == '\n' || strconv.IsPrint(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		out = appendJSONEscape(out, r)
	}
	return out, nil
}

func appendJSONEscape(out []byte, r rune) []byte {
	const bmp = 0x10000
	if r < bmp {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	high, low := 0xD800+(r-bmp)>>10, 0xDC00+(r-bmp)&0x3FF
	return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
}

// Text returns bytes as text if they are UTF-8, as hexadecimal otherwise. It is not escaped.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "hex " + hex.EncodeToString(b)
}
