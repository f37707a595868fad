package cli

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

func relayVerb() verb {
	return verb{
		name: "relay", short: "sends the events of an outbox to Kafka",
		about: `
Sends the events in an outbox table to Kafka until it is interrupted: at least once, the events of one topic and key in order, each with
its ID in the headers event-id and idempotency-key. An event that Kafka rejects --max-attempts times is parked: it stays in the table,
and later events are sent. In PostgreSQL several relays may run at once. In DynamoDB (--outbox-table) this relay reads the table's stream
from its oldest record, and is for local use: the function lambda/relay is for production. See docs/outbox.md.
` + kafkaHelp,
		examples: []string{
			"IDEMSK_STORE_URL=postgres://idemsk@db/payments idemsk relay --brokers b-1:9098,b-2:9098 --auth iam",
			"idemsk relay --brokers 127.0.0.1:9092 --until-empty    # for a test",
			"idemsk relay --migrate                                 # creates the table, and sends nothing",
			"idemsk relay --outbox-table idemsk-outbox --endpoint-url http://127.0.0.1:4566 --brokers 127.0.0.1:9092",
		},
		flags: func(fs *flag.FlagSet) action {
			var r relayCommand
			r.declareStoreURL(fs)
			fs.StringVar(&r.table, "table", pgoutbox.DefaultTable, "the `TABLE` of the outbox in PostgreSQL")
			fs.StringVar(&r.dynamo, "outbox-table", "", "the `TABLE` of the outbox in DynamoDB, instead of PostgreSQL")
			r.awsFlags.declare(fs)
			r.declareBrokers(fs)
			fs.BoolVar(&r.migrate, "migrate", false, "create or update the table, and exit")
			fs.BoolVar(&r.untilEmpty, "until-empty", false, "exit when nothing is left to be sent")
			fs.IntVar(&r.cfg.MaxAttempts, "max-attempts", pgoutbox.DefaultMaxAttempts, "park an event after `N` rejections")
			fs.DurationVar(&r.cfg.Retention, "retention", pgoutbox.DefaultRetention, "the `TIME` for which PostgreSQL keeps published rows")
			fs.DurationVar(&r.cfg.StatsInterval, "report-every", pgoutbox.DefaultStatsInterval,
				"the `TIME` between two status lines; with --until-empty at most 250ms")
			return r.run
		},
	}
}

type relayCommand struct {
	postgresFlags
	kafkaFlags
	awsFlags
	dynamo              string
	cfg                 pgoutbox.RelayConfig
	migrate, untilEmpty bool
}

func (r *relayCommand) run(ctx context.Context, s Streams, args []string) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case !r.migrate && r.brokers == "":
		return usagef("--brokers is missing")
	case r.cfg.MaxAttempts < 1:
		return usagef("--max-attempts is %d: want 1 or more", r.cfg.MaxAttempts)
	case r.cfg.StatsInterval <= 0:
		return usagef("--report-every is %v: want a duration above 0", r.cfg.StatsInterval)
	}
	if err := r.checkAuth(); err != nil {
		return err
	}
	if r.dynamo != "" {
		return explainAWS(r.followDynamoDB(ctx, s))
	}
	return r.relayPostgres(ctx, s)
}

// untilEmptyLook is the longest time between two checks whether the table is empty.
const untilEmptyLook = 250 * time.Millisecond

func (r *relayCommand) relayPostgres(ctx context.Context, s Streams) error {
	pool, err := r.open()
	if err != nil {
		return err
	}
	defer pool.Close()
	box, err := pgoutbox.New(pgoutbox.Config{Table: r.table})
	if err != nil {
		return &usageError{err}
	}
	if r.migrate {
		applied, err := pgoutbox.Migrate(ctx, pool, r.table)
		if err == nil {
			s.sayf("idemsk relay: %s applied to %s\n", term.Plural(len(applied), "migration", "migrations"), term.Escape(r.table))
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
		s.sayf("idemsk relay: %s\n", term.Escape(figures(st)))
		if r.untilEmpty && !st.Unknown && st.Pending == 0 {
			stop()
		}
	}
	work, err := pgoutbox.NewRelay(box, pool, producer, r.cfg)
	if err != nil {
		return &usageError{err}
	}
	return work.Run(ctx)
}

// producer connects to Kafka.
func (r *relayCommand) producer(ctx context.Context) (*relay.Producer, error) {
	secured, err := r.options(ctx, r.region)
	if err != nil {
		return nil, err
	}
	producer, err := relay.New(relay.Config{Options: secured})
	if err != nil {
		return nil, &usageError{err}
	}
	if err := producer.Ping(ctx); err != nil {
		producer.Close()
		return nil, fmt.Errorf("%w: is %s a Kafka broker, and do --tls and --auth match its listener?", err, r.brokers)
	}
	return producer, nil
}

// figures formats the relay's counters and the state of the table.
func figures(st pgoutbox.Stats) string {
	line := fmt.Sprintf("%d published, %d rejected, %d parked", st.Published, st.Rejected, st.Parked)
	if st.Failures > 0 {
		line += fmt.Sprintf("; %s failed, the last with: %v", term.Plural(int(st.Failures), "batch", "batches"), st.LastFailure)
	}
	if st.Unknown {
		return line + "; the state of the table is unknown"
	}
	return line + fmt.Sprintf("; in the table: %d to be sent, the oldest for %v, %d parked", st.Pending, st.OldestAge.Round(time.Millisecond), st.TotalParked)
}
