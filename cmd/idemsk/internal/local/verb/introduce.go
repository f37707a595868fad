package verb

import (
	"os"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// ours are the variables that this tool reads itself.
var ours = []string{"IDEMSK_KAFKA_USERNAME", "IDEMSK_KAFKA_PASSWORD", "IDEMSK_STORE_URL", "IDEMSK_TRACE_DIR", "IDEMSK_UI_PASSWORD"}

// introduce says what a run begins with.
func (l *invocation) introduce(screen *screen, log *functionLog) {
	if l.serving != "" {
		screen.say(term.Escape(l.serving))
	}
	if l.opt.Invoke != "" {
		return
	}
	screen.say("The function's output is written to " + term.Escape(log.file.Name()) + ".")
	for _, name := range notPassed(os.Environ(), l.opt.Env) {
		screen.say(name + " is set here, but the function does not get it: pass it with --env " + name)
	}
}

// notPassed returns the variables of idemsk in the environment, other than ours and those of tests,
// that are not set for the function. Both have the form NAME=VALUE.
func notPassed(environ, env []string) (names []string) {
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		passed := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if strings.HasPrefix(name, "IDEMSK_") && !passed && !slices.Contains(ours, name) &&
			!strings.HasPrefix(name, "IDEMSK_TEST_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
