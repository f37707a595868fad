//go:build rest

package e2e_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// A function with Powertools' idempotency utility moves to the layer as docs/powertools.md says, without a
// change of its code: Powertools alone, then both, then the layer alone. Each step delivers the records of
// the steps before again, and books only payments that are new.
func TestFromPowertoolsToTheLayer(t *testing.T) {
	packages, modules := powertools(t)
	python, node := languages(t, "powertools.handler", packages)
	layeredPython, layeredNode := behindLayer(t, python, node)
	for name, f := range map[string]struct{ alone, layered string }{
		"Python": {python, layeredPython}, "Node": {node, layeredNode},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMove(t, "NODE_PATH="+modules)
			m.step(t, f.alone, local.Faults{Duplicate: 0.3})
			m.step(t, f.layered, local.Faults{Duplicate: 0.3, Concurrent: 0.1, Kill: 0.2})
			m.env = append(m.env, "POWERTOOLS_IDEMPOTENCY_DISABLED=true")
			m.step(t, f.layered, local.Faults{Duplicate: 0.3, Concurrent: 0.1})
		})
	}
}

// move is a function on its way from Powertools to the layer. Its steps share the tables of both, and deliver
// the same topic from its beginning.
type move struct {
	env     []string
	store   string
	records int // of the topic, so far
	booked  map[string]int
}

func newMove(t *testing.T, env ...string) *move {
	t.Helper()
	const theirs, ours = "powertools", "keys"
	m := &move{store: testkit.Serve(t, dynamofake.New, dynamofake.Config{}).URL(),
		booked: make(map[string]int)}
	db := dynamodb.NewFromConfig(awstest.Config(t, m.store))
	awstest.CreateTable(t, db, theirs, "id")
	if err := dynamostore.CreateTable(t.Context(), db, ours); err != nil {
		t.Fatal(err)
	}
	m.env = slices.Concat(env, []string{"POWERTOOLS_TABLE=" + theirs, "IDEMSK_TABLE=" + ours,
		"IDEMSK_KEY=json:$.paymentId", "IDEMSK_LEASE=" + theirTimeout.String()})
	return m
}

// theirTimeout is the function's timeout. Powertools refuses the record of a killed process until then: the
// lease is as long, so that no attempt is made before.
const theirTimeout = 5 * time.Second

// step produces further records, delivers all, and checks that exactly the payments that no step has booked
// before are booked. A kill may repeat the one that was being booked. No attempt fails.
func (m *move) step(t *testing.T, function string, faults local.Faults) {
	t.Helper()
	m.records += testkit.Size(t, 500, 5000)
	o := options(t, m.records, faults)
	bookings := filepath.Join(t.TempDir(), "bookings")
	o.Function, o.Prove, o.Store = function, false, m.store
	o.Env = slices.Concat(m.env, []string{"BOOKINGS=" + bookings})
	o.ESM.Timeout, o.ESM.Pollers, o.ESM.BatchSize = theirTimeout, 2, 25
	report, err := local.Run(bounded(t, 5*time.Minute), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Text())
	if report.Messages != 0 || report.Lag() != 0 || report.Outcomes.Retried != 0 {
		t.Errorf("%d dead letters, lag %d, %d failed attempts; want none", report.Messages, report.Lag(),
			report.Outcomes.Retried)
	}
	if faults.Kill > 0 && len(report.Kills) == 0 {
		t.Error("no process was killed")
	}
	times := booked(t, bookings)
	all, _, _ := split(t, payments.Config{Records: o.Produce, Seed: o.Seed, Copies: o.Copies}, 0)
	want := slices.DeleteFunc(all, func(id string) bool { return m.booked[id] > 0 })
	if found := slices.Sorted(maps.Keys(times)); !slices.Equal(found, want) {
		t.Errorf("%d payments were booked, want the %d new ones alone", len(found), len(want))
	}
	twice := 0
	for _, n := range times {
		twice += n - 1
	}
	if twice > len(report.Kills) {
		t.Errorf("%d bookings were repeated by %d kills", twice, len(report.Kills))
	}
	maps.Copy(m.booked, times)
}

// powertools returns the folders of Powertools in Python and in TypeScript.
func powertools(t *testing.T) (packages, modules string) {
	t.Helper()
	output, err := exec.Command(filepath.Join(root, "scripts/powertools.sh")).Output()
	if err != nil {
		t.Fatalf("scripts/powertools.sh: %v", err)
	}
	installed := strings.TrimSpace(string(output))
	found, err := filepath.Glob(filepath.Join(installed, "python/lib/python3*/site-packages"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v: Powertools is in %q, want one folder", err, found)
	}
	return found[0], filepath.Join(installed, "typescript/node_modules")
}
