package redrive

import (
	"fmt"
	"strconv"
	"strings"
)

// parseLines reads the lines of a file that are done: "1-120,125". Lines are counted from 1.
func parseLines(text string) (progress, error) {
	done := progress{first: 1}
	if text == "" {
		return done, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, more := strings.Cut(part, "-")
		if !more {
			to = from
		}
		a, errFrom := strconv.ParseInt(from, 10, 32)
		b, errTo := strconv.ParseInt(to, 10, 32)
		if errFrom != nil || errTo != nil || a < 1 || b < a {
			return done, fmt.Errorf("%q is no line and no range of lines: want such as 1-120,125", part)
		}
		done.mark(a, b+1)
	}
	return done, nil
}

// linesText returns the lines that are done, as parseLines reads them.
func linesText(done *progress) string {
	spans := done.done
	if done.first > 1 {
		spans = append([]span{{1, done.first}}, spans...)
	}
	var parts []string
	for _, s := range spans {
		part := strconv.FormatInt(s.from, 10)
		if s.to > s.from+1 {
			part += "-" + strconv.FormatInt(s.to-1, 10)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
