//go:build servers

package prune_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestPruneAtAnInterval(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	if r := clitest.Run(t, "migrate", "--store-url", server.URL(), "--table", "keys"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for table, text := range map[string]string{"keys": "0 keys deleted", "missing": "idemsk migrate"} {
		// a failure does not end it
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out := &clitest.Endless{Text: text, Left: 3, End: cancel}
		args := []string{"prune", "--every", "10ms", "--store-url", server.URL(), "--table", table}
		if code := cli.Main(ctx, args, cli.Streams{Out: out, Err: out}, "v1"); code != 0 || out.Left > 0 {
			t.Errorf("exit %d, %d more wanted: %s", code, out.Left, out.String())
		}
		cancel()
	}
}
