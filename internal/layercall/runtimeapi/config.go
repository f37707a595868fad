package runtimeapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Limits of a synchronous invocation, in bytes.
const (
	// MaxPayload is the largest event.
	MaxPayload = 6 << 20
	// MaxResponse is the largest answer. AWS accepts a hundred bytes more than it documents.
	MaxResponse = MaxPayload + 100
)

// Config configures a Function. Command is required. The zero value of every other field selects its default.
type Config struct {
	// Command is the program and its arguments. A program without a slash is searched in PATH. A relative
	// path is relative to the caller's working directory, not to Dir.
	Command []string
	// Dir is the function's working directory and LAMBDA_TASK_ROOT. Default: the caller's working directory.
	Dir string
	// Env has the variables of the function as KEY=VALUE. They override those that Lambda sets, except
	// AWS_LAMBDA_RUNTIME_API.
	Env []string

	// Name is the function's name. Default: "function".
	Name string
	// Handler is the value of _HANDLER. Default: "bootstrap".
	Handler string
	// Region is the value of AWS_REGION and a part of the ARN. Default: us-east-1.
	Region string
	// ARN is the ARN of the function in its invocations. Default: composed of Region, account 000000000000
	// and Name.
	ARN string
	// Concurrency is the maximum number of invocations that a process handles at once. With more than 1 the
	// function runs as on Lambda Managed Instances. Default: 1.
	Concurrency int
	// MemoryMB is the memory in the function's environment, 128 to 10240. It is not enforced. Default: 128.
	MemoryMB int

	// Timeout is the function's timeout, 1 s to 15 min. Default: 3 s, as on AWS.
	Timeout time.Duration
	// InitTimeout is the maximum time until a new process asks for work. Default: 10 s, as on AWS.
	InitTimeout time.Duration
	// StopTimeout is the time between SIGTERM and SIGKILL in Close. Default: 2 s.
	StopTimeout time.Duration

	// Stdout and Stderr are called for each line that the function prints, without its newline; nil discards
	// it. They are not called concurrently, and a slow one blocks the function like a full pipe. The slice is
	// valid only during the call. They may call Function.Kill, but neither Invoke nor Close.
	Stdout, Stderr func(line []byte)
}

const (
	minTimeout = time.Second
	maxTimeout = 15 * time.Minute
	minMemory  = 128
	maxMemory  = 10240
)

// resolve returns the configuration with its defaults and with absolute paths, or an error that names every
// invalid field.
func resolve(c Config) (Config, error) {
	c.setDefaults()
	problems := c.problems()
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		problems = append(problems, fmt.Errorf("the working directory Dir %q: %w", c.Dir, err))
	}
	c.Dir = dir
	if info, err := os.Stat(dir); err != nil {
		problems = append(problems, fmt.Errorf("the working directory Dir: %w", err))
	} else if !info.IsDir() {
		problems = append(problems, fmt.Errorf("the working directory Dir: %s is not a directory", dir))
	}
	if len(problems) > 0 {
		return Config{}, fmt.Errorf("configuration of function %s: %w", c.Name, errors.Join(problems...))
	}
	return c, nil
}

func (c *Config) setDefaults() {
	setDefault(&c.Name, "function")
	setDefault(&c.Handler, "bootstrap")
	setDefault(&c.Region, "us-east-1")
	setDefault(&c.ARN, "arn:aws:lambda:"+c.Region+":000000000000:function:"+c.Name)
	setDefault(&c.Concurrency, 1)
	setDefault(&c.MemoryMB, minMemory)
	setDefault(&c.Timeout, 3*time.Second)
	setDefault(&c.InitTimeout, 10*time.Second)
	setDefault(&c.StopTimeout, 2*time.Second)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) problems() []error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(c.Command) == 0 || c.Command[0] == "" {
		add("Command is empty: give the function's program, such as ./bootstrap")
	}
	for i, entry := range c.Env {
		if key, _, ok := strings.Cut(entry, "="); !ok || key == "" {
			add("Env[%d] %q is not KEY=VALUE", i, entry)
		}
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		add("Timeout %s is not within %s to %s", c.Timeout, minTimeout, maxTimeout)
	}
	if c.Concurrency < 1 {
		add("Concurrency is %d: want 1 or more", c.Concurrency)
	}
	if c.InitTimeout < 0 {
		add("InitTimeout %s is negative", c.InitTimeout)
	}
	if c.StopTimeout < 0 {
		add("StopTimeout %s is negative", c.StopTimeout)
	}
	if c.MemoryMB < minMemory || c.MemoryMB > maxMemory {
		add("MemoryMB %d is not within %d to %d", c.MemoryMB, minMemory, maxMemory)
	}
	return problems
}
