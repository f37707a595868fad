package replay_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// handler is the real function, built for these tests.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "idemsk-replay-test-")
	if err == nil {
		handler = filepath.Join(dir, "bootstrap")
		err = build(handler)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the function can't be built for the tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func build(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", path, "github.com/idemsk/idemsk/lambda/handler").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
