// Program layer is a function in another language behind the layer, for the benchmark. Its arguments are the
// layer's program and the command of the function's runtime, which internal/layercall/runtimeapi runs. The
// function prints "handled N" for each call.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/test/bench/internal/peer"
)

// function is the deployed function, with an emulated Runtime API.
type function struct {
	*runtimeapi.Function
	handled int
}

// Invoke implements peer.Function.
func (f *function) Invoke(ctx context.Context, payload []byte) (int, error) {
	f.handled = 0
	_, err := f.Function.Invoke(ctx, payload)
	return f.handled, err // every line that was printed before the answer is counted
}

func main() {
	peer.Main(func(ctx context.Context) (peer.Function, error) {
		f := new(function)
		var err error
		f.Function, err = runtimeapi.Start(ctx, runtimeapi.Config{
			Command: os.Args[1:], Env: os.Environ(), Handler: os.Args[len(os.Args)-1], MemoryMB: 512, Timeout: time.Minute, //nolint:mnd // a usual size
			Stdout: f.printed,
			Stderr: func(line []byte) { fmt.Fprintf(os.Stderr, "%s\n", line) },
		})
		return f, err
	})
}

func (f *function) printed(line []byte) {
	var n int
	if _, err := fmt.Sscanf(string(line), "handled %d", &n); err == nil {
		f.handled += n
	}
}
