package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
)

// A process whose table does not exist, or has another key, ends before it connects to Kafka.
func TestProcessWithAWrongTableDoesNotJoin(t *testing.T) {
	brokers, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer brokers.Close()
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	if err := db.CreateTable(dynamofake.Table{Name: "other", HashKey: "id"}); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": db.URL(), "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(key, value)
	}
	handler := func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }
	for table, wants := range map[string][]string{
		"missing": {"missing", "does not exist", "IDEMSK_TABLE"},
		"other":   {"other", "idempotencyKey", "IDEMSK_TABLE"},
	} {
		err := Run(t.Context(), app.Handler(kafka.HandlerFunc(handler)), vars(map[string]string{
			"IDEMSK_KAFKA_BROKERS": brokers.Addr().String(), "IDEMSK_TABLE": table, "IDEMSK_HTTP_ADDR": "",
		}), t.Output())
		for _, text := range wants {
			if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), text) {
				t.Errorf("table %s: %v; want ErrMisconfigured with %q", table, err, text)
			}
		}
	}
}

// A process that is told to end while it starts has handled nothing, and ends without an error.
func TestProcessThatEndsWhileItStarts(t *testing.T) {
	settings := map[string]string{"IDEMSK_KAFKA_BROKERS": "127.0.0.1:1", "IDEMSK_STORE": "memory", "IDEMSK_HTTP_ADDR": ""}
	other := errors.New("the function has a syntax error")
	for _, tc := range []struct {
		err  func(ctx context.Context) error
		want error
	}{
		{func(ctx context.Context) error { return fmt.Errorf("the start was given up: %w", ctx.Err()) }, nil},
		{func(context.Context) error { return other }, other},
	} {
		ctx, end := context.WithCancel(t.Context())
		err := Run(ctx, func(ctx context.Context, _ *Base) (kafka.Handler, error) {
			end()
			return nil, tc.err(ctx)
		}, vars(settings), t.Output())
		if !errors.Is(err, tc.want) {
			t.Errorf("%v; want %v", err, tc.want)
		}
	}
}

// The collector uses the memory of the container, unless the handler has processes there.
func TestCollectorOfAContainer(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "") // restores it at the end
		_ = os.Unsetenv(name)
	}
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	for _, shared := range []bool{true, false} {
		build := tuned(func(_ context.Context, base *Base) (kafka.Handler, error) {
			base.SharesMemory = shared
			return nil, nil
		}, 512<<20)
		if _, err := build(t.Context(), new(Base)); err != nil {
			t.Fatal(err)
		}
		if got := debug.SetMemoryLimit(-1); shared != (got == math.MaxInt64) {
			t.Errorf("shared memory %t: the limit is %d", shared, got)
		}
		if got := debug.SetGCPercent(100); shared != (got == 100) {
			t.Errorf("shared memory %t: the collector's percentage is %d", shared, got)
		}
	}
}

// A setting that only functions have is not taken for a misspelt name of another one.
func TestSettingOfFunctionsIsNamedInAProcess(t *testing.T) {
	t.Setenv("IDEMSK_FAILURES", "partial")
	t.Setenv("IDEMSK_OUTAGE_FALURES", "7")
	var stderr bytes.Buffer
	build := func(context.Context, *Base) (kafka.Handler, error) { return nil, errors.New("no handler") }
	err := Run(t.Context(), build, app.Environment(), &stderr)
	if err == nil || !strings.Contains(stderr.String(), `"IDEMSK_FAILURES is set, but only functions have this setting"`) ||
		strings.Count(stderr.String(), "Perhaps IDEMSK_OUTAGE_FAILURES is meant") != 1 {
		t.Errorf("error %v, log %s", err, stderr.String())
	}
}
