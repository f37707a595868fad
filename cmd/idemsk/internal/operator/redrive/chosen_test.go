package redrive_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// Some letters are redriven, or all that failed before. What is asked for and not there is said, and others'
// messages stay.
func TestChosen(t *testing.T) {
	t.Parallel()
	first, second, again := letter(1), letter(2), letter(3)
	again.Error.At = time.Now().Add(time.Hour) // it fails during the redrive
	source := func() *listSource {
		return &listSource{bodies: [][]byte{encode(t, &first), []byte("another's"), encode(t, &second),
			encode(t, &again)}}
	}
	for name, test := range map[string]struct {
		ids        []string
		sent       []int64
		done, says string
	}{
		"all": {nil, []int64{1, 2}, "2 dead letters redriven.", ""},
		"one": {[]string{second.ID()}, []int64{2}, "1 dead letter redriven.", ""},
		"one that left": {[]string{second.ID(), "x"}, []int64{2},
			"1 dead letter redriven. 1 dead letter was not found: redriven by another run, or hidden by another reader of the queue. Read the dead letters again.", ""},
		"a refused one": {[]string{second.ID(), first.ID()}, []int64{2}, "1 dead letter redriven.",
			"1 dead letter redriven. payments-1@1: refused"},
	} {
		d := &listDestination{refuse: map[int64]bool{1: name == "a refused one"}}
		s := source()
		done, err := redrive.Chosen(t.Context(), redrive.Options{Source: s, Destination: d}, test.ids)
		if done != test.done || !slices.Equal(d.sent, test.sent) || !s.closed ||
			(err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %q, %v; sent %v; want %v and %q", name, done, err, d.sent, test.sent, test.says)
		}
	}
}
