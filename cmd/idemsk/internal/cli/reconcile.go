package cli

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/reconcile"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func reconcileVerb() verb {
	return verb{
		name: "reconcile", args: "", short: "lists overdue and failed keys, and compares keys with business records",
		about: `
Lists the keys that are STARTED and overdue (their lease is over and no delivery has claimed them), and those that are FAILED. With
--against it compares the COMPLETED keys with an export of business records, CSV with a header line or JSON lines. It lists keys that
are on one side only, twice in the export, or in the export but not COMPLETED. If there are any, the exit status is 1.

It reads the whole store, which DynamoDB bills by the table's size. Keys whose retention is over may already be deleted: limit the
export with --from.`,
		examples: []string{
			"idemsk reconcile",
			"idemsk reconcile --against bookings.csv --field payment_id --namespace ledger --topic payments --from 24h",
			"idemsk reconcile --against bookings.jsonl --field paymentId --namespace ledger --topic payments --json",
			"IDEMSK_STORE_URL=rediss://idemsk:…@cache:6379 idemsk reconcile",
		},
		flags: func(fs *flag.FlagSet) action {
			var r reconcileCommand
			r.storeFlags.declare(fs)
			r.declare(fs)
			return r.run
		},
	}
}

type reconcileCommand struct {
	storeFlags
	keyFlags
	opt     reconcile.Options
	against string
	field   string
	json    bool
}

func (r *reconcileCommand) declare(fs *flag.FlagSet) {
	fs.StringVar(&r.against, "against", "", "compare with the business records in `FILE`, .csv or .jsonl")
	fs.StringVar(&r.field, "field", "idempotencyKey", "the `NAME` of the export's column or JSON member that holds the key")
	r.keyFlags.declare(fs, "the export's keys")
	bound := func(to *time.Time) func(string) error {
		return func(text string) (err error) {
			*to, err = parseBefore(text, time.Now())
			return err
		}
	}
	fs.Func("from", "only keys that completed at a `TIME` or later must be in the export (or a duration ago: 24h)", bound(&r.opt.From))
	fs.Func("to", "only keys that completed before a `TIME` must be in the export", bound(&r.opt.To))
	fs.BoolVar(&r.json, "json", false, "print the report as JSON")
}

func (r *reconcileCommand) run(ctx context.Context, s Streams, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	var export iter.Seq2[reconcile.Row, error]
	if r.against != "" {
		file, err := os.Open(r.against)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // only read
		export = reconcile.ReadExport(r.against, file, r.field)
	}
	prefix, err := r.stored("")
	if err != nil {
		return err
	}
	r.opt.Prefix = prefix
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.close()
	now := time.Now()
	report, err := reconcile.Run(ctx, store, export, r.opt, now)
	if err != nil {
		return store.explain(err)
	}
	if r.json {
		err = printJSON(s, report, "  ")
	} else {
		_, err = fmt.Fprint(s.Out, reconcileText(report, r.against, now))
	}
	if err == nil && report.Differs() {
		return errReported
	}
	return err
}

// reconcileText formats the report: a table and a summary.
func reconcileText(r *reconcile.Report, against string, now time.Time) string {
	var t term.Table
	t.Row("WHAT", "KEY", "STATUS", "ATTEMPTS", "UPDATED", "SOURCE", "LINE")
	t.Right(3, 6) //nolint:mnd // attempts, line
	for _, group := range reportGroups(r) {
		for _, line := range group.recs {
			t.Row(line.cells(group.what, now)...)
		}
	}
	var b strings.Builder
	if t.Len() > 1 {
		b.WriteString(t.String() + "\n")
	}
	fmt.Fprintf(&b, "%s in the store: %s hang, %s failed.\n", term.Plural(r.Records, "record", "records"),
		term.Count(int64(len(r.Overdue))), term.Count(int64(len(r.Failed))))
	if against != "" {
		fmt.Fprintf(&b, "%s in %s: %s completed, %s not in the store, %s not completed, %s there twice; %s completed and not in the export.\n",
			term.Plural(r.Rows, "row", "rows"), term.Escape(against), term.Count(int64(r.Matched)), term.Count(int64(len(r.OnlyInExport))),
			term.Count(int64(len(r.Unsettled))), term.Count(int64(len(r.Twice))), term.Count(int64(len(r.OnlyInStore))))
	}
	return b.String()
}
