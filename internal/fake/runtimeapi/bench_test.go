package runtimeapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/fake/runtimeapi"
)

// BenchmarkInvoke measures one round trip to a Go function that answers with its event: 250 KB is about 500 records.
func BenchmarkInvoke(b *testing.B) {
	for _, size := range []int{100, 250_000, runtimeapi.MaxPayload} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			f := start(b, config(b, "plain"))
			payload := []byte(strings.Repeat("a", size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Invoke(context.Background(), payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkColdStart measures the start of a process of a Go function until its first answer, and its end.
func BenchmarkColdStart(b *testing.B) {
	f := start(b, config(b, "lambda"))
	for b.Loop() {
		f.Kill()
		if _, err := f.Invoke(context.Background(), []byte(`{"do":"echo"}`)); err != nil {
			b.Fatal(err)
		}
	}
}
