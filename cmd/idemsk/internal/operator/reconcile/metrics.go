package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/network/httpserve"
	"github.com/idemsk/idemsk/internal/reconcile"
	"github.com/idemsk/idemsk/internal/reconcile/prom"
)

// serveMetrics serves the metrics of reconciliations at an address, under /metrics, until end is called.
// Without an address it does nothing.
func (r *invocation) serveMetrics(ctx context.Context, s command.Streams) (end func(), err error) {
	if r.http == "" {
		return func() {}, nil
	}
	registry, mux := prometheus.NewRegistry(), http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	at, end, err := httpserve.Start(ctx, r.http, mux, func(err error) {
		s.Sayf("idemsk reconcile: /metrics is not served any more: %s\n", term.Escape(err.Error()))
	})
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	r.metrics = prom.Register(registry)
	s.Sayf("Metrics: http://%s/metrics\n", at)
	return end, nil
}

// count takes the result of a run into the metrics, if they are served. A run without a report failed.
func (r *invocation) count(report *reconcile.Report, took time.Duration) {
	switch {
	case r.metrics == nil:
	case report == nil:
		r.metrics.Failed()
	default:
		r.metrics.Succeeded(report, took)
	}
}
