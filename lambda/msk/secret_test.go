package msk_test

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/test/testkit/marked"
)

// No failure shows a value, and with HashKeys none shows a key: not in the log, the metrics, the error of the
// invocation, or a dead letter beside its record. The spans are in package telemetry, and the pages in idemsk
// console.
func TestMarksAreInNoOutput(t *testing.T) {
	for _, hashed := range []bool{true, false} {
		for _, failing := range marked.Failures() {
			t.Run(failing.Name+"/"+strconv.FormatBool(hashed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := marked.Function{Namespace: "ledger", Store: memstore.New(memstore.Config{}),
						Engine: idem.Config{HashKeys: hashed}}
					marked.Check(t, hashed, f.Deliver(t, failing).Texts)
				})
			})
		}
	}
}
