// Package reconcile is the verb that compares the entries of a store with business records.
package reconcile

import (
	"context"
	_ "embed" // help.txt
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/reconcile"
	"github.com/idemsk/idemsk/internal/reconcile/prom"
)

//go:embed help.txt
var help string

// Verb returns the verb reconcile.
func Verb() command.Verb {
	return command.Verb{
		Name: "reconcile", Help: help,
		Short: "lists overdue and failed keys, and compares keys with business records",
		Flags: func(fs *flag.FlagSet) command.Action {
			var r invocation
			r.StoreFlags.Declare(fs)
			r.declare(fs)
			return r.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	target.StoreFlags
	flags.Keys
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

func (r *invocation) declare(fs *flag.FlagSet) {
	fs.StringVar(&r.against, "against", "",
		"compare with the business records in `FILE`, .csv or .jsonl, or s3://BUCKET/NAME")
	fs.StringVar(&r.field, "field", "idempotencyKey",
		"the `NAME` of the export's column or JSON member that holds the key")
	r.Keys.Declare(fs, "the export's keys")
	bound := func(to *string) func(string) error {
		return func(text string) error {
			*to = text
			_, err := flags.ParseTime(text, time.Now())
			return err
		}
	}
	fs.Func("from", "only keys that completed at a `TIME` or later must be in the export (or a duration "+
		"ago: 24h)", bound(&r.from))
	fs.Func("to", "only keys that completed before a `TIME` must be in the export", bound(&r.to))
	fs.DurationVar(&r.covers, "covers", 0,
		"instead of --from: the export has the records of this `TIME` before it was written")
	fs.DurationVar(&r.lag, "lag", 0, "with --covers: except those of this `TIME` before it was written")
	fs.IntVar(&r.limit, "limit", defaultLimit, "list at most `N` keys or rows of each kind; 0 for all")
	fs.DurationVar(&r.every, "every", 0, "repeat until interrupted, with this `TIME` between runs")
	fs.StringVar(&r.emf, "emf", "",
		"also print the metrics of a run in CloudWatch's embedded metric format, as those of the function "+
			"`NAME`")
	fs.StringVar(&r.http, "http", "",
		"with --every: serve the metrics of the last run at `ADDR` (127.0.0.1:9464), under /metrics, for "+
			"Prometheus")
	fs.BoolVar(&r.json, "json", false, "print the report as JSON")
}

// defaultLimit is the default of --limit.
const defaultLimit = 1000

func (r *invocation) check(args []string) error {
	switch {
	case len(args) > 0:
		return command.Unexpected(args)
	case r.limit < 0:
		return command.Usagef("--limit is %d: want 0 (all) or more", r.limit)
	case r.every < 0:
		return command.Usagef("--every is %s: want a duration above 0", r.every)
	case r.http != "" && r.every == 0:
		return command.Usagef("--http is only for repeated runs (--every)")
	case r.covers < 0 || r.lag < 0 || (r.lag > 0 && r.lag >= r.covers):
		return command.Usagef(
			"--covers is %s and --lag %s: want --covers above --lag, and --lag of 0 or more", r.covers, r.lag)
	case r.covers > 0 && (r.against == "" || r.from+r.to != ""):
		return command.Usagef("--covers is of an export (--against), and takes the place of --from and --to")
	}
	return nil
}

func (r *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	if err := r.check(args); err != nil {
		return err
	}
	prefix, err := r.Stored("")
	if err != nil {
		return err
	}
	store, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	end, err := r.serveMetrics(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	return command.Repeat(ctx, s, "reconcile", r.every, func() error { return r.once(ctx, s, store, prefix) })
}

func (r *invocation) once(ctx context.Context, s command.Streams, store *target.Store, prefix string) error {
	now := time.Now()
	report, from, err := r.compare(ctx, store, prefix, now)
	r.count(report, time.Since(now))
	if err != nil {
		return err
	}
	if r.json {
		err = s.JSON(report, "  ")
	} else {
		_, err = fmt.Fprint(s.Out, reconcileText(report, from, now))
	}
	if r.emf != "" {
		report.WriteMetrics(s.Out, r.emf, time.Since(now))
	}
	if err == nil && report.Differences() > 0 {
		return command.ErrReported
	}
	return err
}

// compare reads the store and the export, and returns the name of the export. If it fails, there is no
// report.
func (r *invocation) compare(ctx context.Context, store *target.Store, prefix string,
	now time.Time) (_ *reconcile.Report, from string, err error) {
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
		return nil, "", store.Explain(err)
	}
	return report, export.Name, nil
}

// openExport opens the export. Without one, it returns an empty Export.
func (r *invocation) openExport(ctx context.Context) (*reconcile.Export, error) {
	switch {
	case r.against == "":
		return &reconcile.Export{Closer: io.NopCloser(nil)}, nil
	case !reconcile.InBucket(r.against):
		return reconcile.OpenFile(r.against, r.field)
	}
	cfg, err := r.Load(ctx)
	if err != nil {
		return nil, err
	}
	return reconcile.OpenObject(ctx, flags.NewS3(cfg), r.against, r.field)
}

// bound sets the bounds of the completion times. Durations are relative to this run.
func (r *invocation) bound(o *reconcile.Options, export *reconcile.Export, now time.Time) (err error) {
	if r.covers > 0 {
		o.From, o.To, err = export.Bounds(r.covers, r.lag, now)
		return err
	}
	if r.from != "" {
		o.From, err = flags.ParseTime(r.from, now)
	}
	if r.to != "" && err == nil {
		o.To, err = flags.ParseTime(r.to, now)
	}
	return err
}

// reconcileText formats the report: a table and a summary.
func reconcileText(r *reconcile.Report, against string, now time.Time) string {
	var t term.Table
	t.Row("WHAT", "KEY", "STATUS", "ATTEMPTS", "UPDATED", "SOURCE", "LINE")
	t.Right(3, 6) //nolint:mnd // attempts, line
	for _, group := range Groups(r) {
		for _, line := range group.Lines {
			t.Row(line.cells(group.What, now)...)
		}
	}
	var b strings.Builder
	if t.Len() > 1 {
		b.WriteString(t.String() + "\n")
	}
	fmt.Fprintf(&b, "%s in the store: %s hang, %s failed.\n", term.Plural(r.Records, "record", "records"),
		term.Count(r.Found.Overdue), term.Count(r.Found.Failed))
	if against != "" {
		fmt.Fprintf(&b, "%s in %s: %s completed, %s not in the store, %s not completed, %s there twice; %s "+
			"completed and not in the export.\n",
			term.Plural(r.Rows, "row", "rows"), term.Escape(against), term.Count(r.Matched),
			term.Count(r.Found.OnlyInExport),
			term.Count(r.Found.Unsettled), term.Count(r.Found.Twice), term.Count(r.Found.OnlyInStore))
	}
	if listed := t.Len() - 1; listed >= 0 && listed < r.Found.Overdue+r.Found.Failed+r.Differences() {
		b.WriteString("Not all are listed: --limit 0 lists all.\n")
	}
	return b.String()
}
