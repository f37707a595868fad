package storetest_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

// brokenEnv names the broken store for TestSuite and TestAgreement. They run in a child process, because a
// test that must fail can't run in a process that must pass.
const brokenEnv = "IDEMSK_STORETEST_BROKEN"

func TestSuite(t *testing.T) {
	r := rulesUnderTest(t)
	storetest.Run(t, func(*testing.T) storetest.Harness { return newVariant(r, time.Second).harness() })
}

func TestAgreement(t *testing.T) {
	r := rulesUnderTest(t)
	storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
		return newVariant(r, time.Second).harness(), memoryHarness()
	})
}

func rulesUnderTest(t *testing.T) rules {
	t.Helper()
	r := goodRules()
	name := os.Getenv(brokenEnv)
	if name == "" {
		return r
	}
	for _, b := range brokenStores() {
		if b.name == name {
			b.how(&r)
			return r
		}
	}
	t.Fatalf("%s=%q names no broken store", brokenEnv, name)
	return r
}

func memoryHarness() storetest.Harness {
	clock := storetest.NewClock()
	store := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: time.Second})
	return storetest.Harness{
		Store: store, Now: clock.Now, Advance: clock.Advance, Skew: time.Second,
		Sweep: func(testing.TB) { store.Sweep() },
	}
}

func brokenStores() []broken {
	return slices.Concat(rule1(), rule2(), rule3(), rule4(), rule5(), rule6(), rule7(), rule8(), rule9(),
		rule10(), beyondTheRules(), effectRules())
}

// Each broken store must be detected by the group for its rule and, if possible, by the comparison with the
// store in memory.
func TestBrokenStoresAreDetected(t *testing.T) {
	for _, b := range brokenStores() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			wantFailure(t, b.name, "TestSuite/"+b.group)
			if !b.unseen {
				wantFailure(t, b.name, "TestAgreement")
			}
		})
	}
}

// wantFailure runs a test of this binary on a broken store and checks that it fails.
func wantFailure(t *testing.T, store, test string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), self, "-test.run="+pattern, "-test.timeout=1m",
		"-rapid.nofailfile", "-rapid.shrinktime=1ms", "-rapid.checks=10000")
	// a folder for traces is one of stores that conform
	cmd.Env = append(os.Environ(), brokenEnv+"="+store, "IDEMSK_TRACE_DIR=")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: "+test+" ") ||
		strings.Contains(string(out), "panic:") {
		t.Errorf("%s passes, or ends otherwise, on a store in which %s (%v):\n%.4000s", test, store, err, out)
	}
}
