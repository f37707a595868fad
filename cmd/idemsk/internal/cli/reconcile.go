package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/reconcile"
	"github.com/idemsk/idemsk/internal/reconcile/prom"
)

func reconcileVerb() verb {
	return verb{
		name: "reconcile", args: "", short: "lists overdue and failed keys, and compares keys with business records",
		about: `
Lists the keys that are STARTED and overdue (their lease is over and no delivery has claimed them), and those that are FAILED. With
--against it compares the COMPLETED keys with an export of business records, CSV with a header line or JSON lines. It lists keys that
are on one side only, twice in the export, or in the export but not COMPLETED. If there are any, the exit status is 1.

An export in S3 is the newest object whose name begins as given. With --covers 25h --lag 1h, each export has at least the records of the
25 hours before it was written, except those of the last hour; an export that is older than that is an error.

It reads the whole store, which DynamoDB bills by the table's size, and holds the keys of the export in memory, about 150 bytes a row.
Keys whose retention is over may already be deleted: limit the export with --from or --covers. With --every it repeats this until it is
interrupted.`,
		examples: []string{
			"idemsk reconcile",
			"idemsk reconcile --against bookings.csv --field payment_id --namespace ledger --topic payments --from 24h",
			"idemsk reconcile --against bookings.jsonl --field paymentId --namespace ledger --topic payments --json",
			"idemsk reconcile --every 24h --against s3://exports/bookings/ --covers 25h --lag 1h --namespace ledger --topic payments --emf ledger",
			"idemsk reconcile --every 1h --http :9464 --store-url postgres://idemsk:…@db:5432/payments",
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
	against     string
	field       string
	from, to    string
	covers, lag time.Duration
	limit       int
	every       time.Duration
	emf         string
	http        string
	json        bool

	metrics *prom.Metrics // nil without http
}

func (r *reconcileCommand) declare(fs *flag.FlagSet) {
	fs.StringVar(&r.against, "against", "", "compare with the business records in `FILE`, .csv or .jsonl, or s3://BUCKET/NAME")
	fs.StringVar(&r.field, "field", "idempotencyKey", "the `NAME` of the export's column or JSON member that holds the key")
	r.keyFlags.declare(fs, "the export's keys")
	bound := func(to *string) func(string) error {
		return func(text string) error {
			*to = text
			_, err := parseBefore(text, time.Now())
			return err
		}
	}
	fs.Func("from", "only keys that completed at a `TIME` or later must be in the export (or a duration ago: 24h)", bound(&r.from))
	fs.Func("to", "only keys that completed before a `TIME` must be in the export", bound(&r.to))
	fs.DurationVar(&r.covers, "covers", 0, "instead of --from: the export has the records of this `TIME` before it was written")
	fs.DurationVar(&r.lag, "lag", 0, "with --covers: except those of this `TIME` before it was written")
	fs.IntVar(&r.limit, "limit", defaultReconcileLimit, "list at most `N` keys or rows of each kind; 0 for all")
	fs.DurationVar(&r.every, "every", 0, "repeat until interrupted, with this `TIME` between runs")
	fs.StringVar(&r.emf, "emf", "", "also print the metrics of a run in CloudWatch's embedded metric format, as those of the function `NAME`")
	fs.StringVar(&r.http, "http", "", "with --every: serve the metrics of the last run at `ADDR` (127.0.0.1:9464), under /metrics, for Prometheus")
	fs.BoolVar(&r.json, "json", false, "print the report as JSON")
}

// defaultReconcileLimit is the default of --limit.
const defaultReconcileLimit = 1000

func (r *reconcileCommand) check(args []string) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case r.limit < 0:
		return usagef("--limit is %d: want 0 (all) or more", r.limit)
	case r.every < 0:
		return usagef("--every is %s: want a duration above 0", r.every)
	case r.http != "" && r.every == 0:
		return usagef("--http is only for repeated runs (--every)")
	case r.covers < 0 || r.lag < 0 || (r.lag > 0 && r.lag >= r.covers):
		return usagef("--covers is %s and --lag %s: want --covers above --lag, and --lag of 0 or more", r.covers, r.lag)
	case r.covers > 0 && (r.against == "" || r.from+r.to != ""):
		return usagef("--covers is of an export (--against), and takes the place of --from and --to")
	}
	return nil
}

func (r *reconcileCommand) run(ctx context.Context, s Streams, args []string) error {
	if err := r.check(args); err != nil {
		return err
	}
	prefix, err := r.stored("")
	if err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.close()
	end, err := r.serveMetrics(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	return repeat(ctx, s, "reconcile", r.every, func() error { return r.once(ctx, s, store, prefix) })
}

func (r *reconcileCommand) once(ctx context.Context, s Streams, store *adminStore, prefix string) error {
	now := time.Now()
	report, from, err := r.compare(ctx, store, prefix, now)
	r.count(report, time.Since(now))
	if err != nil {
		return err
	}
	if r.json {
		err = printJSON(s, report, "  ")
	} else {
		_, err = fmt.Fprint(s.Out, reconcileText(report, from, now))
	}
	if r.emf != "" {
		report.WriteMetrics(s.Out, r.emf, time.Since(now))
	}
	if err == nil && report.Differences() > 0 {
		return errReported
	}
	return err
}

// compare reads the store and the export, and returns the name of the export. If it fails, there is no report.
func (r *reconcileCommand) compare(ctx context.Context, store *adminStore, prefix string, now time.Time) (_ *reconcile.Report, from string, err error) {
	opt := reconcile.Options{Prefix: prefix, Limit: r.limit}
	export, err := r.openExport(ctx)
	if err != nil {
		return nil, "", err
	}
	defer export.Close() //nolint:errcheck // only read
	if err := r.bound(&opt, export, now); err != nil {
		return nil, "", err
	}
	report, err := reconcile.Run(ctx, store, export.Rows, opt, now)
	if err != nil {
		return nil, "", store.explain(err)
	}
	return report, export.Name, nil
}

// openExport opens the export. Without one, it returns an empty Export.
func (r *reconcileCommand) openExport(ctx context.Context) (*reconcile.Export, error) {
	switch {
	case r.against == "":
		return &reconcile.Export{Closer: io.NopCloser(nil)}, nil
	case !reconcile.InBucket(r.against):
		return reconcile.OpenFile(r.against, r.field)
	}
	cfg, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	return reconcile.OpenObject(ctx, newS3(cfg), r.against, r.field)
}

// bound sets the bounds of the completion times. Durations are relative to this run.
func (r *reconcileCommand) bound(o *reconcile.Options, export *reconcile.Export, now time.Time) (err error) {
	if r.covers > 0 {
		o.From, o.To, err = export.Bounds(r.covers, r.lag, now)
		return err
	}
	if r.from != "" {
		o.From, err = parseBefore(r.from, now)
	}
	if r.to != "" && err == nil {
		o.To, err = parseBefore(r.to, now)
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
		term.Count(r.Found.Overdue), term.Count(r.Found.Failed))
	if against != "" {
		fmt.Fprintf(&b, "%s in %s: %s completed, %s not in the store, %s not completed, %s there twice; %s completed and not in the export.\n",
			term.Plural(r.Rows, "row", "rows"), term.Escape(against), term.Count(r.Matched), term.Count(r.Found.OnlyInExport),
			term.Count(r.Found.Unsettled), term.Count(r.Found.Twice), term.Count(r.Found.OnlyInStore))
	}
	if listed := t.Len() - 1; listed >= 0 && listed < r.Found.Overdue+r.Found.Failed+r.Differences() {
		b.WriteString("Not all are listed: --limit 0 lists all.\n")
	}
	return b.String()
}
