package local

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// lineWriter writes the lines of several processes to one log. It shows warnings of misspelt variables, each
// once, because nobody reads the log of a run that succeeds.
type lineWriter struct {
	say func(line string)

	mu    sync.Mutex
	w     io.Writer
	shown map[string]bool // the variables with a warning
}

// line writes a line and a newline. It ignores errors, so that they do not end the run.
func (l *lineWriter) line(line []byte) {
	l.write(line)
	if variable, warning := misspelt(line); warning != "" && l.first(variable) {
		l.say("WARNING: " + term.Escape(warning))
	}
}

func (l *lineWriter) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(append(line[:len(line):len(line)], '\n'))
}

// first reports whether there was no warning of the variable before.
func (l *lineWriter) first(variable string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown[variable] {
		return false
	}
	if l.shown == nil {
		l.shown = make(map[string]bool)
	}
	l.shown[variable] = true
	return true
}

// misspelt returns the variable of a line that app.Vars.WarnUnread has logged, and the warning; "" for any
// other line.
func misspelt(line []byte) (variable, warning string) {
	if !bytes.Contains(line, []byte(`"variable"`)) {
		return "", ""
	}
	var said struct{ Level, Msg, Variable string }
	if json.Unmarshal(line, &said) != nil || said.Level != "WARN" ||
		!strings.HasPrefix(said.Msg, said.Variable+" is set") {
		return "", ""
	}
	return said.Variable, said.Msg
}
