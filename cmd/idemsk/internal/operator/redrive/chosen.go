package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// maxErrors is the number of letters whose errors Chosen returns in full.
const maxErrors = 10

// Chosen redrives the letters with some IDs, or all if there are none. A letter that fails again meanwhile
// stays. It says what was done and how many letters it did not find, and returns an error if a letter was not
// redriven.
func Chosen(ctx context.Context, o Options, ids []string) (done string, err error) {
	o.Source = &chosen{Source: o.Source, ids: ids, begun: time.Now()}
	redriven, seen := 0, 0
	var failures []error
	_, err = Run(ctx, o, func(result Result) {
		seen++
		if result.Outcome == Redriven {
			redriven++
		}
		if result.Error != "" {
			failures = append(failures, fmt.Errorf("%s: %s", result.Source, result.Error))
		}
	})
	if more := len(failures) - maxErrors; more > 0 {
		failures = append(failures[:maxErrors], fmt.Errorf("and %d more", more))
	}
	done = term.Plural(redriven, "dead letter", "dead letters") + " redriven."
	if missing := len(ids) - seen; missing > 0 && err == nil {
		done += fmt.Sprintf(" %s not found: redriven by another run, or hidden by another reader of the queue. Read the dead letters again.",
			term.Plural(missing, "dead letter was", "dead letters were"))
	}
	if err = errors.Join(append(failures, err)...); err != nil && redriven > 0 {
		err = fmt.Errorf("%s %w", done, err)
	}
	return done, err
}

// chosen is a source of the letters that failed before it began, with some IDs, or with any if there are
// none.
type chosen struct {
	Source

	ids   []string
	begun time.Time
}

// Next implements Source.
func (c *chosen) Next(ctx context.Context) (*Message, error) {
	for {
		m, err := c.Source.Next(ctx)
		if err != nil || m.Err == nil && !m.Letter.Error.At.After(c.begun) &&
			(len(c.ids) == 0 || slices.Contains(c.ids, m.Letter.ID())) {
			return m, err
		}
	}
}
