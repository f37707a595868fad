package verb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// functionLog writes the function's output to a file and keeps its last lines.
type functionLog struct {
	file      *os.File
	temporary bool
	keep      string // why the file is kept although the run did not fail
	last      []string
}

// The number of lines that are shown when a run fails, and the runes shown of each.
const (
	lastLines = 10
	maxLine   = 300
)

// oldFile is the age at which a temporary file of an earlier run is removed.
const oldFile = 24 * time.Hour

// openLog opens the log file at path. Without a path it removes old temporary logs and creates a temporary
// file.
func openLog(path string) (*functionLog, error) {
	if path != "" {
		file, err := os.Create(path) //nolint:gosec // named by the user
		if err != nil {
			return nil, fmt.Errorf("the function's log: %w", err)
		}
		return &functionLog{file: file}, nil
	}
	file, err := temporary("idemsk-local-*.log")
	if err != nil {
		return nil, fmt.Errorf("a file for the function's log (name one with --log): %w", err)
	}
	return &functionLog{file: file, temporary: true}, nil
}

// temporary creates a temporary file, and removes old ones of the same pattern.
func temporary(pattern string) (*os.File, error) {
	earlier, _ := filepath.Glob(filepath.Join(os.TempDir(), pattern)) // the pattern is well-formed
	for _, name := range earlier {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() &&
			time.Since(info.ModTime()) > oldFile {
			_ = os.Remove(name) // another user's stays
		}
	}
	return os.CreateTemp("", pattern)
}

// Write takes one line at a time.
func (l *functionLog) Write(line []byte) (int, error) {
	if len(l.last) == lastLines {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, strings.TrimRight(string(line), "\n"))
	return l.file.Write(line)
}

// close shows the end of the log if the run failed, but not what the error already contains. A temporary file
// is kept only then, or if there is a reason to keep it.
func (l *functionLog) close(failure error, s command.Streams) error {
	err := l.file.Close()
	switch {
	case failure != nil && len(l.last) > 0:
		l.show(failure.Error(), s)
	case l.keep != "" && len(l.last) > 0:
		s.Sayf("%s: the function's log is in %s.\n", l.keep, l.file.Name())
	case l.temporary:
		err = errors.Join(err, os.Remove(l.file.Name()))
	}
	return err
}

// show shows the last lines, except those that a message contains.
func (l *functionLog) show(message string, s command.Streams) {
	left := slices.DeleteFunc(l.last,
		func(line string) bool { return strings.Contains(message, line[:min(len(line), maxLine)]) })
	if len(left) == 0 {
		s.Sayf("The function's log is in %s; the error shows its end.\n", l.file.Name())
		return
	}
	s.Sayf("The function's log is in %s; it ends with:\n", l.file.Name())
	for _, line := range left {
		s.Sayf("  %s\n", term.Cut(term.Escape(line), maxLine))
	}
}
