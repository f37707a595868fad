// Package term writes for people at a terminal: text from elsewhere made harmless, tables, ages and progress.
package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape makes text from other sources (a key, a header, an error) harmless to print: what is not printable is
// written as Go would write it in a string (\x1b, \n, \u202e). A terminal would take control characters as commands, and
// those that change the direction of text make one thing look like another.
func Escape(s string) string { return escape(s, false) }

// EscapeLines is Escape for text of several lines: line breaks and tabs stay.
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

// Cut shortens text to width runes, the last of which is an ellipsis then.
func Cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(0, width-1)]) + "…"
}

// JSON encodes v on one line, or, with an indent, on several. What a terminal would not print is escaped, which
// encoding/json does for ASCII only; it is inside strings, so the meaning stays.
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
