package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/kafka/consumer/monitor"
)

const (
	headerTimeout = 5 * time.Second
	closeTimeout  = time.Second
)

// serve serves the health and the metrics of a consumer, and returns what ends that. With an empty address it does nothing.
func serve(ctx context.Context, addr string, c *consumer.Consumer, metrics *prometheus.Registry, log *slog.Logger) (end func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	metrics.MustRegister(monitor.NewCollector(c), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("IDEMSK_HTTP_ADDR: %w", err)
	}
	server := &http.Server{Handler: monitor.Handler(c, metrics), ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "health and metrics are not served any more", "error", err)
		}
	}()
	log.InfoContext(ctx, "serving /livez, /readyz and /metrics", "address", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = server.Shutdown(ctx) // a scrape that takes longer is cut off
		_ = server.Close()
		<-done
	}, nil
}
