package redrive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/internal/text/textfile"
)

// file is a source of letters in a file, one on each line. The file is not changed: the source knows the
// lines that are done, so that a next run can skip them.
type file struct {
	f        *os.File
	r        *bufio.Reader
	line     int64    // that was read last
	done     progress // the lines before the first that is not done, and those beyond it that are
	redriven bool     // a line became done in this run
	begun    bool     // a line was read that is not empty
	eof      bool
}

var _ Source = (*file)(nil)

// OpenFile returns the letters in a file of JSON lines, without the lines that are done, such as "1-3,7".
func OpenFile(path, done string) (Source, error) {
	skip, err := parseLines(done)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path) //nolint:gosec // named by the user
	if err != nil {
		return nil, err
	}
	return &file{f: f, r: textfile.New(f), done: skip}, nil
}

func (s *file) Next(context.Context) (*Message, error) {
	for {
		line, err := s.r.ReadBytes('\n')
		s.eof = errors.Is(err, io.EOF)
		if len(line) > 0 {
			s.line++
			if line = bytes.TrimSpace(line); len(line) == 0 {
				s.done.mark(s.line, s.line+1)
			}
		}
		if len(line) > 0 && !s.begun && !json.Valid(line) {
			return nil, fmt.Errorf("line %d of %s is no whole document: %s", s.line, s.f.Name(), foreign.OneALine)
		}
		s.begun = s.begun || len(line) > 0
		if len(line) > 0 && !s.done.has(s.line) {
			m := NewMessage(fmt.Sprintf("line %d", s.line), line)
			m.at.offset = s.line
			return m, nil
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
func (s *file) Close(context.Context) error                        { return s.f.Close() }

func (s *file) Done(_ context.Context, m *Message) error {
	s.done.mark(m.at.offset, m.at.offset+1)
	s.redriven = true
	return nil
}

// ended reports whether all lines are done.
func (s *file) ended() bool { return s.eof && s.done.first > s.line }
