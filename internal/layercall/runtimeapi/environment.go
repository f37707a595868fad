package runtimeapi

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// environment returns the environment of a process of the function: the variables that the AWS documentation
// lists for OS-only runtimes (which have no AWS_EXECUTION_ENV and no _X_AMZN_TRACE_ID), overridden by those
// of the caller. Of this process's environment it has only PATH, so that a function neither depends on nor
// leaks the variables of the developer's shell.
func environment(cfg *Config, program, runtimeAPI string) []string {
	env := []string{
		"AWS_DEFAULT_REGION=" + cfg.Region,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(cfg.MemoryMB),
		"AWS_LAMBDA_FUNCTION_NAME=" + cfg.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + cfg.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=" + logStream(),
		"AWS_REGION=" + cfg.Region,
		"AWS_XRAY_CONTEXT_MISSING=LOG_ERROR",
		"LAMBDA_RUNTIME_DIR=" + filepath.Dir(program),
		"LAMBDA_TASK_ROOT=" + cfg.Dir,
		"LANG=en_US.UTF-8",
		"PATH=" + os.Getenv("PATH"),
		"TZ=:UTC",
		"_HANDLER=" + cfg.Handler,
	}
	if cfg.Concurrency > 1 {
		env = append(env, "AWS_LAMBDA_INITIALIZATION_TYPE=lambda-managed-instances",
			"AWS_LAMBDA_MAX_CONCURRENCY="+strconv.Itoa(cfg.Concurrency))
	} else {
		env = append(env, "AWS_LAMBDA_INITIALIZATION_TYPE=on-demand")
	}
	// os/exec keeps the last of two values for one key.
	return slices.Concat(env, cfg.Env, []string{"AWS_LAMBDA_RUNTIME_API=" + runtimeAPI})
}

func logStream() string {
	return time.Now().UTC().Format("2006/01/02") + "/[$LATEST]" + randomHex(16)
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	return fmt.Sprintf("%x", b)
}

// newTraceID returns an X-Ray tracing header without sampling.
func newTraceID() string {
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0", time.Now().Unix(), randomHex(12), randomHex(8))
}
