package runtimeapi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

func Example() {
	ctx := context.Background()
	f, err := runtimeapi.Start(ctx, runtimeapi.Config{
		Command: []string{os.Args[0]}, // a bootstrap; here the test binary, as one
		Env:     []string{modeVariable + "=lambda"},
		Name:    "payments",
		Timeout: 30 * time.Second,
		Stdout:  func(line []byte) { fmt.Printf("payments: %s\n", line) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close(ctx)

	result, err := f.Invoke(ctx, []byte(`{"do":"echo","text":"hello"}`))
	fmt.Println(string(result.Payload), err)

	_, err = f.Invoke(ctx, []byte(`{"do":"print","count":2}`))
	fmt.Println(err)

	_, err = f.Invoke(ctx, []byte(`{"do":"error","text":"no such account"}`))
	var failed *runtimeapi.FunctionError
	if errors.As(err, &failed) {
		fmt.Println(failed.Type, "-", failed.Message)
	}
	// Output:
	// {"do":"echo","text":"hello"} <nil>
	// payments: out 0
	// payments: out 1
	// <nil>
	// errorString - no such account
}
