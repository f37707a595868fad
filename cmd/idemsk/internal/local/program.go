package local

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// whole is how long a file must be unchanged before it counts as built: a compiler may still write it.
const whole = 500 * time.Millisecond

// program is the files of a function that its command names. Its processes are replaced when it was built
// again.
type program struct {
	files []string
	built time.Time
}

// programOf returns the files with code that the words of a command name: a program, a script, or the module of
// a handler such as app.handler, which may also be in the variable _HANDLER.
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
			info, err := os.Stat(name)
			if err == nil && info.Mode().IsRegular() && (name != word || isCode(name, info)) {
				p.files = append(p.files, name)
			}
		}
	}
	p.built, _ = p.latest()
	return p
}

// isCode tells a program from a file that it reads or writes.
func isCode(name string, info os.FileInfo) bool {
	return info.Mode().Perm()&0o111 != 0 || slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".jar"}, path.Ext(name))
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

// rebuilt reports whether the files were written since programOf or since rebuilt last returned true. It waits
// until they are whole.
func (p *program) rebuilt(ctx context.Context) bool {
	for ctx.Err() == nil {
		at, ok := p.latest()
		if !ok || at.Equal(p.built) {
			return false
		}
		if fresh := whole - time.Since(at); fresh > 0 {
			esm.Wait(ctx, fresh)
			continue
		}
		p.built = at
		return true
	}
	return false
}
