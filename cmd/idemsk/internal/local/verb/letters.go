package verb

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// failsOnLetters reports whether unexpected dead letters fail the run.
func (l *invocation) failsOnLetters() bool {
	return l.onLetters || l.opt.Prove && !slices.Contains(l.given(), "fail-on-dead-letters")
}

// checkLetters refuses --fail-on-dead-letters where the dead letters can't be seen.
func (l *invocation) checkLetters() error {
	if l.onLetters && (l.opt.Store == local.StoreNone || l.opt.Function == "") {
		return command.Usagef(
			"--fail-on-dead-letters needs --function, and a --store: it looks into the queue in this process")
	}
	return nil
}

// keepLetters writes the dead letters of a run to a file, because their queue ends with the run, and shows
// the command that lists them. A run that was interrupted keeps none that its records ask for.
func keepLetters(s command.Streams, report *local.Report, interrupted bool) error {
	if report.Messages == 0 || report.Unexpected == 0 && interrupted {
		return nil
	}
	file, err := temporary("idemsk-local-*.jsonl")
	if err != nil {
		return fmt.Errorf("a file for the dead letters: %w", err)
	}
	_, err = file.WriteString(strings.Join(report.Bodies, "\n") + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the dead letters: %w", err)
	}
	s.Sayf("The dead letters are kept for a day; to show them: idemsk redrive --dry-run --file %s\n",
		term.Escape(file.Name()))
	return nil
}
