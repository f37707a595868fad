package verify

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka"
)

// causeWidth is the maximum width of a dead letter's error.
const causeWidth = 300

// particulars are the parts of an error that differ between records with the same cause: what is quoted, and
// numbers.
var particulars = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\d+`)

// cause is a group of dead letters with the same cause.
type cause struct {
	first kafka.DeadLetter // by its record
	n     int
}

// Letters lists dead letters by cause, the most frequent first, each with its first record; "" if there are
// none.
func Letters(letters []kafka.DeadLetter) string {
	if len(letters) == 0 {
		return ""
	}
	byCause := make(map[string]*cause)
	for i := range letters {
		l := &letters[i]
		name := l.Error.Code + " " + particulars.ReplaceAllString(l.Error.Message, "")
		c := byCause[name]
		if c == nil {
			c = &cause{first: *l}
			byCause[name] = c
		}
		if c.n++; l.Source() < c.first.Source() {
			c.first = *l
		}
	}
	causes := make([]*cause, 0, len(byCause))
	for _, c := range byCause {
		causes = append(causes, c)
	}
	slices.SortFunc(causes, func(a, b *cause) int {
		return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.first.Source(), b.first.Source()))
	})
	var t term.Table
	for _, c := range causes[:min(len(causes), maxShown)] {
		t.Row("  "+c.first.Source(), cmp.Or(c.first.Error.Code, "-"),
			term.Cut(term.Escape(c.first.Error.Message), causeWidth))
		if c.n > 1 {
			t.Row("", "", "and "+term.Count(c.n-1)+" more for this reason")
		}
	}
	return "Dead letters:\n" + t.String() + more(len(causes)) + "\n"
}
