package term

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Count formats a number with commas between thousands.
func Count[T ~int | ~int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	digits := strings.TrimPrefix(text, "-")
	var b strings.Builder
	b.WriteString(text[:len(text)-len(digits)])
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Plural formats a number and its unit.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Money formats an amount in hundredths: 123456 is 1,234.56.
func Money(minor int64) string {
	const hundredths = 100
	whole, rest, sign := minor/hundredths, minor%hundredths, ""
	if minor < 0 {
		whole, rest, sign = -whole, -rest, "-"
	}
	return fmt.Sprintf("%s%s.%02d", sign, Count(whole), rest)
}

// When formats a time in UTC and its distance from now: "2026-01-02 15:04:05.000 (in 3m)".
func When(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000") + " (" + Age(t, now) + ")"
}

// Age formats the distance of a time from now in the largest unit: "in 3m", "2h ago", "now"; "unknown"
// of the zero time.
func Age(t, now time.Time) string {
	const day = 24 * time.Hour
	d := t.Sub(now)
	n := d.Abs()
	var text string
	switch {
	case t.IsZero():
		return "unknown"
	case n < time.Second:
		return "now"
	case n < time.Minute:
		text = strconv.Itoa(int(n/time.Second)) + "s"
	case n < time.Hour:
		text = strconv.Itoa(int(n/time.Minute)) + "m"
	case n < 2*day:
		text = strconv.Itoa(int(n/time.Hour)) + "h"
	default:
		text = strconv.Itoa(int(n/day)) + "d"
	}
	if d > 0 {
		return "in " + text
	}
	return text + " ago"
}

// Wrap escapes a text and breaks it into lines of at most width bytes. A longer word has a line of its own.
func Wrap(text string, width int) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(Escape(text)) {
		switch {
		case i == 0:
		case n+1+len(word) > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

// Paragraph escapes a text and breaks it into lines of readable length.
func Paragraph(text string) string {
	const width = 110
	return Wrap(text, width) + "\n"
}

// Fold breaks lines that are longer than width runes at blanks, and keeps their indentation. It does not
// break a longer word.
func Fold(text string, width int) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
			at := breakAt(line, len(indent), width)
			if at < 0 {
				break
			}
			b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// breakAt returns the index of the last blank after from within width runes, or else of the first blank; -1
// if there is none.
func breakAt(line string, from, width int) int {
	at, runes := -1, 0
	for i, r := range line {
		if r == ' ' && i > from && (runes <= width || at < 0) {
			at = i
		}
		if runes++; runes > width && at >= 0 {
			break
		}
	}
	return at
}
