package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/internal/memory"
	"github.com/idemsk/idemsk/app/topic"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/kafka/consumer/monitor"
)

type (
	// Base has the configuration, the logger and the clients from which a handler can be built.
	Base = app.Base
	// Build returns a handler.
	Build = app.Build
	// Option adds an optional part, such as a store.
	Option = app.Option
)

// Start runs a handler as this process. It returns only by ending the process. In a container with a memory
// limit it lets the garbage collector use up to 80% of that, unless GOGC or GOMEMLIMIT is set.
func Start(handler kafka.Handler, options ...Option) { StartFunc(app.Handler(handler), options...) }

// StartFunc is Start for a handler that needs the configuration, a logger, or AWS: build gets them in a Base.
// It sets Base.SharesMemory if the handler has processes in the container, which need memory too.
func StartFunc(build Build, options ...Option) {
	build = tuned(app.DefaultLogger(build), memory.OfContainer(os.DirFS("/")))
	signals := make(chan os.Signal, 2) //nolint:mnd // the first drains, the second ends
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	ctx, drain := context.WithCancel(context.Background())
	go func() {
		fmt.Fprintf(os.Stderr, "idemsk: %v: draining; a second signal ends the process at once\n", <-signals)
		drain()
		fmt.Fprintf(os.Stderr, "idemsk: %v again: the process ends; records in progress are delivered again\n", <-signals)
		os.Exit(1)
	}()
	if err := Run(ctx, build, app.Environment(), os.Stderr, options...); err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the consumer has ended:\n%v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tuned returns a Build that also sets the garbage collector, for a container with limit bytes.
func tuned(build Build, limit int64) Build {
	return func(ctx context.Context, base *Base) (kafka.Handler, error) {
		handler, err := build(ctx, base)
		if !base.SharesMemory {
			memory.Tune(limit)
		}
		return handler, err
	}
}

// Run runs a handler with the configuration of the variables until ctx ends, as [consumer.Consumer.Run] does,
// and returns its error. Logs go to stderr. It returns all errors of the configuration together.
func Run(ctx context.Context, build Build, vars *app.Vars, stderr io.Writer, options ...Option) error {
	options = append([]Option{topic.DeadLetters()}, options...) // a process has the client of Kafka already
	cfg := ReadConfig(vars, options...)
	metrics := prometheus.NewRegistry()
	if cfg.HTTPAddr != "" {
		outcomes := monitor.NewOutcomes()
		metrics.MustRegister(outcomes)
		options = append(options, app.WithObserver(outcomes))
	}
	base := app.NewBase(vars, cfg.Config, stderr, options...)
	vars.WarnUnused(ctx, base.Logger, "only functions have this setting", "IDEMSK_FAILURES")
	parts, err := base.Parts(ctx, build)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer base.Close()
	if err := checkStore(ctx, parts.Store); err != nil {
		return unlessEnded(ctx, err)
	}
	if err := cfg.connect(ctx, base, metrics); err != nil {
		return unlessEnded(ctx, err)
	}
	cfg.Consumer.Records, cfg.Consumer.Logger = parts.Records, base.Logger
	c, err := consumer.New(parts.Engine, parts.Handler, cfg.Consumer)
	if err != nil {
		return err
	}
	end, err := serve(ctx, cfg.HTTPAddr, c, metrics, base.Logger)
	if err != nil {
		return err
	}
	defer end()
	return c.Run(ctx)
}

// unlessEnded returns an error of the start. A start that was given up because ctx has ended is none.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// checkTimeout is the maximum time of the check of the store.
const checkTimeout = 5 * time.Second

// checkStore returns an error if an operator must change the configuration of the store before it can be
// used. Any other failure of the check is not returned: a store that does not answer now may answer before
// the first record.
func checkStore(ctx context.Context, st store.Store) error {
	checked, ok := st.(interface {
		Check(ctx context.Context) error
	})
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := checked.Check(ctx); errors.Is(err, store.ErrMisconfigured) {
		return err
	}
	return nil
}

// connect sets the options of the Kafka client. The client's metrics are registered in metrics.
func (c *Config) connect(ctx context.Context, base *Base, metrics *prometheus.Registry) (err error) {
	if c.auth.NeedsAWS() {
		if c.auth.AWS, err = base.AWS(ctx); err != nil {
			return err
		}
	}
	options, err := c.auth.Options()
	if err != nil {
		return err
	}
	options = append(options, kgo.WithLogger(kslog.New(base.Logger.With("component", "kafka"))))
	if c.HTTPAddr != "" {
		options = append(options, kgo.WithHooks(kprom.NewMetrics("idemsk_kafka", kprom.Registry(metrics))))
	}
	c.Consumer.Options = options
	return nil
}
