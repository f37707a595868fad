package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/app/s3"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/emf"
	"github.com/idemsk/idemsk/internal/reconcile"
)

const (
	// margin is the time at the end of an invocation that is left for the report.
	margin = 3 * time.Second
	// listed is the maximum number of keys or rows of each kind that are logged.
	listed = 100
	// pruned is the number of keys that one transaction deletes.
	pruned = 1000
)

// pruner is a store whose expired keys must be deleted.
type pruner interface {
	PruneAll(ctx context.Context, limit int) (total int, err error)
}

// function is the maintenance as a Lambda handler.
type function struct {
	config
	base   *app.Base
	store  store.Store
	stdout io.Writer // for metrics
}

// newFunction creates the function from the environment variables. Metrics go to stdout, logs to stderr. It
// returns all errors of the configuration together.
func newFunction(ctx context.Context, vars *app.Vars, stdout, stderr io.Writer) (*function, error) {
	const name = "AWS_LAMBDA_FUNCTION_NAME"
	options := []app.Option{postgres.Store(), redis.Store()}
	cfg := app.ReadConfig(vars, app.Defaults{Name: vars.String(name, ""), NameVariable: name}, options...)
	f := &function{config: readConfig(vars, &cfg.Records), base: app.NewBase(vars, cfg, stderr, options...),
		stdout: stdout}
	vars.WarnUnread(ctx, f.base.Logger)
	if err := vars.Err(); err != nil {
		return nil, err
	}
	var err error
	if f.store, err = f.base.OpenStore(ctx); err != nil {
		f.base.Close()
		return nil, err
	}
	return f, nil
}

// event is what EventBridge passes.
type event struct {
	Task string `json:"task"`
}

var errUnfinished = errors.New("the time was over before all was read: give the function a longer timeout")

// handle does one task.
func (f *function) handle(ctx context.Context, e event) (err error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	switch e.Task {
	case "reconcile":
		err = f.reconcile(ctx)
	case "prune":
		err = f.prune(ctx)
	default:
		err = fmt.Errorf(`the event has the task %q: want {"task":"reconcile"} or {"task":"prune"}`, e.Task)
	}
	if err != nil {
		f.base.Logger.ErrorContext(ctx, "the maintenance failed", "task", e.Task, "error", err)
	}
	return err
}

func (f *function) reconcile(ctx context.Context) error {
	admin, ok := f.store.(store.Admin)
	if !ok {
		return fmt.Errorf("IDEMSK_STORE is %s, whose keys can't be listed", f.base.Config.Store)
	}
	begun := time.Now()
	opt := reconcile.Options{Prefix: f.prefix, Limit: listed}
	export, wrong := f.openExport(ctx, &opt, begun)
	defer export.Close() //nolint:errcheck,staticcheck // it was only read; with an error there is an empty one
	report, err := reconcile.Run(ctx, admin, export.Rows, opt, begun)
	if errors.Is(err, reconcile.ErrExport) { // the state of the keys is known without it
		wrong = err
		report, err = reconcile.Run(ctx, admin, nil, opt, begun)
	}
	if err != nil {
		return err
	}
	f.log(ctx, report, export)
	report.WriteMetrics(f.stdout, f.base.Config.Function, time.Since(begun))
	if report.Unfinished {
		return fmt.Errorf("after %d keys and %d rows: %w", report.Records, report.Rows, errUnfinished)
	}
	return wrong
}

// openExport opens the export and sets the bounds that it has. Without an export, and with an error, it
// returns an empty one.
func (f *function) openExport(ctx context.Context, o *reconcile.Options, now time.Time) (*reconcile.Export,
	error) {
	none := &reconcile.Export{Closer: io.NopCloser(nil)}
	if f.export == "" {
		return none, nil
	}
	awsCfg, err := f.base.AWS(ctx)
	if err != nil {
		return none, err
	}
	export, err := reconcile.OpenObject(ctx, s3.NewClient(awsCfg), f.export, f.field)
	if err != nil {
		return none, err
	}
	if o.From, o.To, err = export.Bounds(f.covers, lag, now); err != nil {
		_ = export.Close() // nothing was read
		return none, err
	}
	return export, nil
}

// log logs the report: a line for each key or row that it lists, and one with all numbers.
func (f *function) log(ctx context.Context, r *reconcile.Report, export *reconcile.Export) {
	warn := func(text string, attrs ...slog.Attr) {
		f.base.Logger.LogAttrs(ctx, slog.LevelWarn, text,
			attrs...)
	}
	entries := func(text string, list []store.Entry) {
		for i := range list {
			warn(text, ofEntry(&list[i])...)
		}
	}
	rows := func(text string, list []reconcile.Row) {
		for _, row := range list {
			warn(text, slog.String("key", row.Key), slog.Int("line", row.Line))
		}
	}
	entries("a key is overdue: it is STARTED, its lease is over, and no delivery has claimed it", r.Overdue)
	entries("a key failed", r.Failed)
	entries("a key is completed and not in the export", r.OnlyInStore)
	rows("a row of the export has no key in the store", r.OnlyInExport)
	rows("a row of the export is there twice", r.Twice)
	for i := range r.Unsettled {
		warn("a row of the export has a key that is not completed",
			append(ofEntry(&r.Unsettled[i].Record), slog.Int("line", r.Unsettled[i].Row.Line))...)
	}
	f.base.Logger.InfoContext(ctx, "reconciled", "keys", r.Records, "found", r.Found, "oldestInProgress",
		r.InProgress.String(),
		"export", export.Name, "rows", r.Rows, "matched", r.Matched, "unfinished", r.Unfinished)
}

func ofEntry(entry *store.Entry) []slog.Attr {
	return []slog.Attr{
		slog.String("key", entry.Key), slog.String("status", string(entry.Status)),
		slog.Int("attempts", entry.Attempts), slog.String("source", entry.Source),
		slog.Time("updatedAt", entry.UpdatedAt),
	}
}

func (f *function) prune(ctx context.Context) error {
	keys, ok := f.store.(pruner)
	if !ok {
		return fmt.Errorf("IDEMSK_STORE is %s, which deletes keys itself: only those in PostgreSQL are pruned", f.base.Config.Store)
	}
	total, err := keys.PruneAll(ctx, pruned)
	emf.Write(f.stdout, f.base.Config.Function, time.Now(), emf.Count("KeysPruned", total))
	f.base.Logger.InfoContext(ctx, "pruned", "keys", total)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return fmt.Errorf("after %d keys were deleted: %w", total, errUnfinished)
	}
	return err
}
