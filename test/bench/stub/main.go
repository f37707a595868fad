// Program stub is DynamoDB for the benchmark: internal/fake/dynamofake with a fixed latency for each request,
// counted.
//
// It prints "listening URL" when it takes requests. GET /usage answers what it was asked for since the last
// DELETE /usage, as JSON. It ends on SIGTERM or SIGINT.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/localhttp"
)

func main() {
	latency := flag.Duration("latency", 0, "how long each request waits before it is performed")
	batchLatency := flag.Duration("batch-latency", 0, "the same for batches and transactions")
	flag.Parse()
	if err := run(*latency, *batchLatency); err != nil {
		fmt.Fprintln(os.Stderr, "stub:", err)
		os.Exit(1)
	}
}

func run(latency, batchLatency time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	fake, err := dynamofake.New(dynamofake.Config{Fault: func(operation string, _ []byte) dynamofake.Fault {
		if isBatch(operation) {
			return dynamofake.Fault{Delay: batchLatency}
		}
		return dynamofake.Fault{Delay: latency}
	}})
	if err != nil {
		return err
	}
	server, err := localhttp.New(localhttp.FreePort, routes(fake))
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	fmt.Println("listening", server.URL())
	<-ctx.Done()
	return errors.Join(fake.Close(), server.Close()) // the first ends the waits
}

func isBatch(operation string) bool {
	return strings.HasPrefix(operation, "Batch") || strings.HasPrefix(operation, "Transact")
}

func routes(fake *dynamofake.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /", fake)
	mux.HandleFunc("GET /usage", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(fake.Usage()) // an error means that the driver went away
	})
	mux.HandleFunc("DELETE /usage", func(http.ResponseWriter, *http.Request) { fake.ResetUsage() })
	return mux
}
