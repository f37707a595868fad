package redrive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/idemsk/idemsk/internal/text/textfile"
)

// file is a source of letters in a file, one on each line. It is not changed.
type file struct {
	f    *os.File
	r    *bufio.Reader
	line int
}

var _ Source = (*file)(nil)

// OpenFile returns the letters in a file of JSON lines.
func OpenFile(path string) (Source, error) {
	f, err := os.Open(path) //nolint:gosec // named by the user
	if err != nil {
		return nil, err
	}
	return &file{f: f, r: textfile.New(f)}, nil
}

func (s *file) Next(context.Context) (*Message, error) {
	for {
		line, err := s.r.ReadBytes('\n')
		s.line++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return message(fmt.Sprintf("line %d", s.line), line), nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", s.f.Name(), err)
		}
	}
}

func (s *file) Begin(context.Context, *Message) (time.Time, error) { return time.Time{}, nil }
func (s *file) Done(context.Context, *Message) error               { return nil }
func (s *file) Close(context.Context) error                        { return s.f.Close() }
