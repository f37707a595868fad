// Package memory sets the garbage collector of a program whose memory is bounded from outside.
//
// The live heap of a function or of a consumer process is a few MB. With Go's default the collector would run
// several times per batch, which takes a quarter of the CPU time of batched writes. It may use more memory
// instead, bounded by a share of what the program has.
package memory

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	gcPercent = 400
	share     = 0.8
)

// Tune sets the collector for a program that has limit bytes. It does nothing if limit is 0, or if GOGC or
// GOMEMLIMIT is set.
func Tune(limit int64) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, ok := os.LookupEnv(name); ok {
			return
		}
	}
	if limit <= 0 {
		return
	}
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(int64(share * float64(limit)))
}

// OfFunction returns the memory of a Lambda function in bytes, 0 outside Lambda.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
func OfFunction() int64 {
	mb, err := strconv.ParseInt(os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 64)
	if err != nil || mb < 0 {
		return 0
	}
	return mb << 20 //nolint:mnd // MB
}

// OfContainer returns the memory limit of the container that the process runs in, in bytes; 0 if there is
// none. root is the root of the file system. A container sees the limit of its own control group, of version 2
// or 1. https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
func OfContainer(root fs.FS) int64 {
	for _, name := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || limit > math.MaxInt64/2 { // "max", or what version 1 has for none
			return 0
		}
		return limit
	}
	return 0
}
