package command

import (
	"regexp"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// failureWidth is the width of a column of failures, in runes.
const failureWidth = 60

// exhausted is what stands before the handler's error of the last attempt.
var exhausted = regexp.MustCompile(`^exhausted: idem: attempts exhausted \(attempt \d+ of \d+\): `)

// Failure returns a failure, "code: message", for a column of a table: cut, with the handler's error first.
func Failure(text string) string {
	text = exhausted.ReplaceAllLiteralString(text, "exhausted: ")
	return term.Cut(term.Escape(text), failureWidth)
}
