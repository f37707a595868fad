package process

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/idemsk/idemsk/internal/network/httpserve"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/kafka/consumer/monitor"
)

// serve serves the health and the metrics of a consumer, and returns what ends that. With an empty address it
// does nothing.
func serve(ctx context.Context, addr string, c *consumer.Consumer, metrics *prometheus.Registry,
	log *slog.Logger) (end func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	metrics.MustRegister(monitor.NewCollector(c), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	at, end, err := httpserve.Start(ctx, addr, monitor.Handler(c, metrics), func(err error) {
		log.ErrorContext(ctx, "health and metrics are not served any more", "error", err)
	})
	if err != nil {
		return nil, fmt.Errorf("IDEMSK_HTTP_ADDR: %w", err)
	}
	log.InfoContext(ctx, "serving /livez, /readyz and /metrics", "address", at.String())
	return end, nil
}
