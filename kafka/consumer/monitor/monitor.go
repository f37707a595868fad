// Package monitor shows the state of a consumer over HTTP: its health for an orchestrator, and its metrics
// for Prometheus.
package monitor

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idemsk/idemsk/kafka/consumer"
)

// Handler serves
//   - /livez: status 200, or 503 if the process should be started again (see [consumer.Consumer.Live]);
//   - /readyz: status 200, or 503 if the process is not a member of the group (see
//     [consumer.Consumer.Ready]);
//   - /metrics: what the gatherer has, in the formats of Prometheus. Register a [Collector] there.
func Handler(c *consumer.Consumer, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", health(c.Live))
	mux.Handle("GET /readyz", health(c.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func health(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // the client has gone otherwise
	})
}
