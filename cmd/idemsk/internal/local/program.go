package local

import (
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// written is how long a file must be unchanged before it counts as built: a compiler may still write it.
const written = 500 * time.Millisecond

// program is the files of a function that its command names. Its processes are replaced when it was built
// again.
type program struct {
	files []string
	built time.Time
}

// programOf returns the files that the words of a command name: a program, a script, or the module of a handler such
// as app.handler, which may also be in the variable _HANDLER.
func programOf(command, env []string) *program {
	words := slices.Clone(command)
	for _, variable := range env {
		if handler, ok := strings.CutPrefix(variable, "_HANDLER="); ok {
			words = append(words, handler)
		}
	}
	p := &program{}
	for _, word := range words {
		module := strings.TrimSuffix(word, path.Ext(word))
		for _, name := range []string{word, module + ".py", module + ".js", module + ".mjs", module + ".cjs"} {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				p.files = append(p.files, name)
			}
		}
	}
	p.built, _ = p.latest()
	return p
}

// latest returns when the latest file was written; false if one is missing.
func (p *program) latest() (at time.Time, ok bool) {
	for _, name := range p.files {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}, false
		}
		if info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at, true
}

// rebuilt reports whether the files were written since programOf or since rebuilt last returned true.
func (p *program) rebuilt() bool {
	at, ok := p.latest()
	if !ok || at.Equal(p.built) || time.Since(at) < written {
		return false
	}
	p.built = at
	return true
}
