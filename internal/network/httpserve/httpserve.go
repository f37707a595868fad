// Package httpserve serves HTTP beside the work of a process: its health and its metrics.
package httpserve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	closeTimeout  = time.Second
)

// Start listens on a TCP address, and serves there until end is called. It calls lost if the server ends
// earlier. The address that it returns has the port that the system chose if addr has the port 0.
func Start(ctx context.Context, addr string, handler http.Handler, lost func(error)) (at net.Addr, end func(),
	err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // has the address; the caller names the setting
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			lost(err)
		}
	}()
	return l.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = server.Shutdown(ctx) // a scrape that takes longer is cut off
		_ = server.Close()
		<-done
	}, nil
}
