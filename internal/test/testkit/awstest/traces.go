package awstest

import (
	"os"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/trace/dynamotrace"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

// TraceWrites returns a dynamofake.Config.Observe that writes the traces of a table's keys at the end of the
// test. It is nil unless keytrace.DirVariable names a folder. skew is the MaxClockSkew of the processes, and
// tolerance the maximum difference between their clocks and that of the test.
func TraceWrites(tb testing.TB, table string, skew, tolerance time.Duration) func(*dynamofake.Write) {
	tb.Helper()
	dir := os.Getenv(keytrace.DirVariable)
	if dir == "" {
		return nil
	}
	writes := dynamotrace.NewWrites(table, time.Now)
	tb.Cleanup(func() {
		n, err := writes.Save(keytrace.Config{Dir: dir, Name: tb.Name(), Skew: skew, Tolerance: tolerance})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Logf("%d traces of keys", n)
	})
	return writes.Observe
}
