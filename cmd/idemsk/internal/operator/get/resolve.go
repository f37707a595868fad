package get

import (
	"context"
	"crypto/rand"
	_ "embed" // resolve.txt
	"flag"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/idem/store"
)

//go:embed resolve.txt
var resolveHelp string

// ResolveVerb returns the verb resolve.
func ResolveVerb() command.Verb {
	return command.Verb{
		Name: "resolve", Short: "settles a key whose outcome is unknown", Help: resolveHelp,
		Flags: func(fs *flag.FlagSet) command.Action {
			var r resolution
			r.declare(fs)
			fs.BoolVar(&r.completed, "completed", false, "the effect took place")
			fs.StringVar(&r.result, "result", "", "the result to store with --completed, a `TEXT`")
			fs.BoolVar(&r.again, "again", false, "the effect did not take place: the record may be handled again")
			return r.run
		},
	}
}

// resolution is a run of the verb with its flags.
type resolution struct {
	change
	completed, again bool
	result           string
}

// resolveLease is the lease of the claim by which an entry is changed.
const resolveLease = 30 * time.Second

func (r *resolution) run(ctx context.Context, s command.Streams, args []string) error {
	switch {
	case r.completed == r.again:
		return command.Usagef("give one of --completed and --again")
	case r.again && r.result != "":
		return command.Usagef("--result is stored with --completed only")
	case len(r.result) > store.MaxResult:
		return command.Usagef("the result has %d bytes: the limit is %d", len(r.result), store.MaxResult)
	}
	return r.change.run(ctx, s, args, action{
		verb: "resolve", question: r.question(), allowed: resolvable, do: r.settle, done: r.done(),
	})
}

func (r *resolution) question() string {
	if r.completed {
		return "Make this key COMPLETED? Its record is never handled again."
	}
	return "Open this key? Its record is handled again, and its effect happens again if it has happened."
}

func (r *resolution) done() string {
	if r.completed {
		return "the key is COMPLETED; a redrive of its dead letter is answered without a call"
	}
	return "the key is open; redrive its dead letter to have the record handled"
}

// resolvable returns an error for an entry whose outcome is not unknown.
func resolvable(entry *store.Entry) error {
	switch {
	case entry.Status == store.StatusStarted:
		return fmt.Errorf("nothing was done: the key is %s, and its outcome is not unknown yet: "+
			"if its process died, the next delivery of the record finds it out", entry.Status)
	case entry.Status != store.StatusFailed:
		return fmt.Errorf("nothing was done: the key is %s", entry.Status)
	case entry.Failure == nil || entry.Failure.Code != store.CodeOutcomeUnknown:
		return fmt.Errorf("nothing was done: the key failed, and its outcome is known: redrive its dead letter")
	}
	return nil
}

// settle claims the entry that was shown as a redriven record does, and settles it. If the second request
// fails, the key is held for the lease, and then its outcome is unknown again.
func (r *resolution) settle(ctx context.Context, st *target.Store, entry *store.Entry) error {
	retention := entry.Expiry.Sub(entry.UpdatedAt)
	claim := store.ClaimRequest{
		Key: entry.Key, Owner: "resolve-" + rand.Text(), Source: entry.Source, Fingerprint: entry.Fingerprint,
		Lease: resolveLease, Retention: retention, RedriveToken: entry.Token,
	}
	got := st.Claim(ctx, []store.ClaimRequest{claim})[0]
	switch {
	case got.Err != nil:
		return st.Explain(got.Err)
	case got.State != store.Claimed:
		return changedError("nothing was done", entry, &got.Entry)
	}
	set := store.Settlement{Op: store.OpRelease, Refund: true, Key: entry.Key, Token: got.Entry.Token,
		Owner: claim.Owner, Retention: retention}
	if r.completed {
		set.Op, set.Refund, set.Result = store.OpComplete, false, []byte(r.result)
	} else { // without a failure, the redriven record would come back as a dead letter
		set.Failure = &store.Failure{Code: store.CodeResolved, Message: "idemsk resolve: its effect did not take place"}
	}
	if errs := st.Settle(ctx, []store.Settlement{set}); len(errs) > 0 && errs[0] != nil {
		return fmt.Errorf("the key is held for %v, and then its outcome is unknown again: %w", resolveLease,
			st.Explain(errs[0]))
	}
	return nil
}
