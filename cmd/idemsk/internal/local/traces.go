package local

import (
	"fmt"
	"os"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/trace/dynamotrace"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

// usualSkew is the function's maximum clock skew, unless --env has another.
const usualSkew = 100 * time.Millisecond

// checkTraces refuses options of runs without traces.
func (o *Options) checkTraces(check checkFunc) {
	if o.Traces == "" {
		return
	}
	check(o.storeKind() == StoreFake, "--traces needs --store fake: they are of the DynamoDB in this process")
	info, err := os.Stat(o.Traces)
	check(err == nil && info.IsDir(), "--traces: %s is not a folder", o.Traces)
}

// traced returns an observer of the DynamoDB in this process that calls observe, which may be nil, and keeps
// traces if there is a folder for them.
func (s *runStore) traced(o *Options, observe func(*dynamofake.Write)) func(*dynamofake.Write) {
	if o.Traces == "" || o.Unprotected {
		return observe
	}
	s.traces = dynamotrace.NewWrites(dynamostore.DefaultTable, time.Now)
	if observe == nil {
		return s.traces.Observe
	}
	return func(w *dynamofake.Write) {
		s.traces.Observe(w)
		observe(w)
	}
}

// saveTraces saves the traces, if there are any. The clocks of the function's processes are that of this
// process.
func (s *runStore) saveTraces(o *Options) error {
	if s.traces == nil {
		return nil
	}
	skew, err := time.ParseDuration(o.variable("IDEMSK_MAX_CLOCK_SKEW"))
	if err != nil {
		skew = usualSkew
	}
	n, err := s.traces.Save(keytrace.Config{Dir: o.Traces, Name: "local", Skew: skew,
		Tolerance: dynamotrace.OneMachine})
	if err != nil {
		return fmt.Errorf("--traces: %w", err)
	}
	o.Say(fmt.Sprintf("%d traces of keys in %s: scripts/trace.sh compares them with the model.", n, o.Traces))
	return nil
}
