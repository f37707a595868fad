//go:build rest

package runtimeapi_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// AWS's own runtime interface clients of other languages, which scripts/runtimes.sh installs, run functions
// that echo, raise and die.
func TestFunctionsInOtherLanguages(t *testing.T) {
	out, err := exec.Command("../../../scripts/runtimes.sh").Output()
	if err != nil {
		t.Fatalf("scripts/runtimes.sh: %v: %s", err, stderrOf(err))
	}
	installed := strings.TrimSpace(string(out))
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for name, lang := range map[string]struct {
		command []string
		handler string
		raised  string
	}{
		"Python": {[]string{filepath.Join(installed, "python/bin/python"), "-m", "awslambdaric",
			"function.handler"}, "function.handler", "ValueError"},
		"Node": {[]string{"node", filepath.Join(installed,
			"node/node_modules/aws-lambda-ric/bin/index.mjs"), "function.handler"}, "function.handler",
			"RangeError"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, "")
			cfg.Env = append(cfg.Env, "PYTHONDONTWRITEBYTECODE=1")
			cfg.Command, cfg.Dir, cfg.Handler = lang.command, testdata, lang.handler
			f := start(t, cfg)
			if got := string(invoke(t, f,
				`{"do":"echo","text":"zwölf € 🎉"}`).Payload); got != `{"text":"zwölf € 🎉"}` &&
				got != `{"text": "zw\u00f6lf \u20ac \ud83c\udf89"}` {
				t.Errorf("the answer is %s", got)
			}
			raised := fails[*runtimeapi.FunctionError](t, f, `{"do":"raise","text":"no such account"}`)
			if raised.Type != lang.raised || raised.Message != "no such account" {
				t.Errorf("raised %q, %q; want %s", raised.Type, raised.Message, lang.raised)
			}
			fails[*runtimeapi.CrashError](t, f, `{"do":"die"}`)
			invoke(t, f, `{"do":"echo","text":"again"}`)
			wantStarts(t, f, 2)
		})
	}
}

func stderrOf(err error) []byte {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as os/exec returns it
		return exit.Stderr
	}
	return nil
}
