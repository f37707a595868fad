package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Doubles are the payments that a function booked more than once, by the list of its bookings.
type Doubles struct {
	Payments int      // that were booked
	Twice    int      // of those: more than once
	Repeats  []Repeat // the bookings that were repeated after a kill, in the order of the kills
	Problems []string // the other repeated bookings
}

// booking is a line of the list. Behind the layer the function takes request, token and attempt from its
// context and from the record's headers.
type booking struct {
	Payment string `json:"payment"`
	Request string `json:"request"`
	Token   int64  `json:"token"`
	Attempt int    `json:"attempt"`
}

// ReadDoubles reads a list of bookings, a line of JSON each, and matches the doubles with the kills. Window
// is the most bookings that a kill repeats.
func ReadDoubles(list io.Reader, kills []Kill, window int) (*Doubles, error) {
	text, err := io.ReadAll(list)
	if err != nil {
		return nil, err
	}
	executions := make(map[string][]testenv.Execution)
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		var b booking
		if err := json.Unmarshal([]byte(line), &b); err != nil || b.Payment == "" {
			return nil, fmt.Errorf(`line %d is %.80q: want {"payment":"…","request":"…","token":1,"attempt":1}`, number, line)
		}
		executions[b.Payment] = append(executions[b.Payment], testenv.Execution{
			Key: b.Payment, Executor: invocationOf(b.Request), Token: b.Token, Attempt: b.Attempt,
		})
	}
	d := &Doubles{Payments: len(executions)}
	for _, all := range executions {
		if len(all) > 1 {
			d.Twice++
		}
	}
	d.Repeats, d.Problems = explain(executions, kills, 0)
	d.Problems = append(d.Problems, tooMany(d.Repeats, window)...)
	return d, nil
}

// invocationOf returns the request ID of the invocation that a call is part of. The layer appends the number
// of a further call.
func invocationOf(request string) string {
	const groups = 5 // of a UUID
	parts := strings.Split(request, "-")
	return strings.Join(parts[:min(len(parts), groups)], "-")
}

// Text describes the doubles in words.
func (d *Doubles) Text() string {
	text := table("Booked again because the process was killed before the completion", d.Repeats,
		func(r *Repeat) []string {
			return []string{
				term.Escape(r.Key), "attempt " + strconv.Itoa(r.Attempt),
				"killed " + r.Kill.At.Format(timeOfDay),
				"process " + strconv.Itoa(r.Kill.Process), "request " + r.Kill.Executor,
				"in " + r.Kill.During,
			}
		})
	if n := len(d.Problems); n > 0 {
		text += "Booked again without a kill:\n"
		for _, problem := range d.Problems[:min(n, maxShown)] {
			text += "  " + term.Escape(problem) + "\n"
		}
		text += more(n)
	}
	return text + fmt.Sprintf("%s booked, %s more than once\n",
		term.Plural(d.Payments, "payment was", "payments were"), term.Count(d.Twice))
}
