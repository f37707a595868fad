// Package relay is the verb that sends the events of an outbox to Kafka.
package relay

import (
	"context"
	_ "embed" // help.txt
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

//go:embed help.txt
var help string

// Verb returns the verb relay.
func Verb() command.Verb {
	return command.Verb{
		Name: "relay", Short: "sends the events of an outbox to Kafka", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var r invocation
			r.DeclareStoreURL(fs)
			fs.StringVar(&r.Table, "table", pgoutbox.DefaultTable, "the `TABLE` of the outbox in PostgreSQL")
			fs.StringVar(&r.dynamo, "outbox-table", "",
				"the `TABLE` of the outbox in DynamoDB, instead of PostgreSQL")
			r.AWS.Declare(fs)
			r.DeclareBrokers(fs)
			fs.BoolVar(&r.migrate, "migrate", false, "create or update the table, and exit")
			fs.BoolVar(&r.untilEmpty, "until-empty", false, "exit when nothing is left to be sent")
			fs.IntVar(&r.cfg.MaxAttempts, "max-attempts", pgoutbox.DefaultMaxAttempts,
				"park an event after `N` rejections")
			fs.DurationVar(&r.cfg.Retention, "retention", pgoutbox.DefaultRetention,
				"the `TIME` for which PostgreSQL keeps published rows")
			fs.DurationVar(&r.cfg.StatsInterval, "report-every", pgoutbox.DefaultStatsInterval,
				"the `TIME` between two status lines; with --until-empty at most 250ms")
			return r.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	target.PostgresFlags
	flags.Kafka
	flags.AWS
	dynamo              string
	cfg                 pgoutbox.RelayConfig
	migrate, untilEmpty bool
}

func (r *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	switch {
	case len(args) > 0:
		return command.Unexpected(args)
	case !r.migrate && r.Brokers == "":
		return command.Usagef("--brokers is missing")
	case r.cfg.MaxAttempts < 1:
		return command.Usagef("--max-attempts is %d: want 1 or more", r.cfg.MaxAttempts)
	case r.cfg.StatsInterval <= 0:
		return command.Usagef("--report-every is %v: want a duration above 0", r.cfg.StatsInterval)
	}
	if err := r.CheckAuth(); err != nil {
		return err
	}
	if r.dynamo != "" {
		return flags.ExplainAWS(r.followDynamoDB(ctx, s))
	}
	return r.relayPostgres(ctx, s)
}

// untilEmptyLook is the longest time between two checks whether the table is empty.
const untilEmptyLook = 250 * time.Millisecond

func (r *invocation) relayPostgres(ctx context.Context, s command.Streams) error {
	pool, err := r.Open()
	if err != nil {
		return err
	}
	defer pool.Close()
	box, err := pgoutbox.New(pgoutbox.Config{Table: r.Table})
	if err != nil {
		return &command.UsageError{Err: err}
	}
	if r.migrate {
		applied, err := pgoutbox.Migrate(ctx, pool, r.Table)
		if err == nil {
			s.Sayf("idemsk relay: %s applied to %s\n", term.Plural(len(applied), "migration", "migrations"),
				term.Escape(r.Table))
		}
		return err
	}
	producer, err := r.producer(ctx)
	if err != nil {
		return err
	}
	defer producer.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if r.untilEmpty { // the check is made with the statistics
		r.cfg.StatsInterval = min(r.cfg.StatsInterval, untilEmptyLook)
	}
	r.cfg.Logger = slog.New(slog.NewTextHandler(s.Err, nil))
	r.cfg.Stats = func(st pgoutbox.Stats) {
		s.Sayf("idemsk relay: %s\n", term.Escape(figures(st)))
		if r.untilEmpty && !st.Unknown && st.Pending == 0 {
			stop()
		}
	}
	work, err := pgoutbox.NewRelay(box, pool, producer, r.cfg)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	return work.Run(ctx)
}

// producer connects to Kafka.
func (r *invocation) producer(ctx context.Context) (*relay.Producer, error) {
	secured, err := r.Options(ctx, r.Region)
	if err != nil {
		return nil, err
	}
	producer, err := relay.New(relay.Config{Options: secured})
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	if err := producer.Ping(ctx); err != nil {
		producer.Close()
		return nil, fmt.Errorf("%w: is %s a Kafka broker, and do --tls and --auth match its listener?", err,
			r.Brokers)
	}
	return producer, nil
}

// figures formats the relay's counters and the state of the table.
func figures(st pgoutbox.Stats) string {
	line := fmt.Sprintf("%d published, %d rejected, %d parked", st.Published, st.Rejected, st.Parked)
	if st.Failures > 0 {
		line += fmt.Sprintf("; %s failed, the last with: %v",
			term.Plural(int(st.Failures), "batch", "batches"), st.LastFailure)
	}
	if st.Unknown {
		return line + "; the state of the table is unknown"
	}
	return line + fmt.Sprintf("; in the table: %d to be sent, the oldest for %v, %d parked", st.Pending,
		st.OldestAge.Round(time.Millisecond), st.TotalParked)
}
