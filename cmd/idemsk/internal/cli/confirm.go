package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// confirm asks a question and reports whether the answer is y or yes. It returns when ctx is done.
func confirm(ctx context.Context, s Streams, question string) (bool, error) {
	s.sayf("%s [y/N] ", term.Escape(question))
	answer := make(chan string, 1)
	failed := make(chan error, 1)
	go func() { // a read from a terminal can't be canceled: without an answer this goroutine ends with the process
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
		s.sayf("\n")
		return false, context.Cause(ctx)
	}
}
