package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Confirm asks a question and reports whether the answer is y or yes. It returns when ctx is done.
func Confirm(ctx context.Context, s Streams, question string) (bool, error) {
	s.Sayf("%s [y/N] ", term.Escape(question))
	answer := make(chan string, 1)
	failed := make(chan error, 1)
	// A read from a terminal can't be canceled: without an answer this goroutine ends with the process.
	go func() {
		line, err := bufio.NewReader(s.In).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			failed <- err
			return
		}
		answer <- line
	}()
	select {
	case line := <-answer:
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes", nil
	case err := <-failed:
		return false, fmt.Errorf("reading the answer: %w", err)
	case <-ctx.Done():
		s.Sayf("\n")
		return false, context.Cause(ctx)
	}
}
