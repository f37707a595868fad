package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/stream"
)

// Options say what to play, to what, and on what.
type Options struct {
	Function string            // the program
	Store    string            // StoreFake, or the URL of an endpoint for DynamoDB and SQS
	Files    []*mskevent.Batch // played first, in this order
	Stream   stream.Config     // then this
	// Duplicates is the chance, 0 to 1, that a settled batch of the stream is delivered again, as after a rebalance.
	Duplicates float64
	// Kills is how often the process is killed just before an effect while the stream is played; without a stream, not at all.
	Kills int
	// Compare plays the same a second time without idemsk.
	Compare bool
	// Env are variables of the function as NAME=VALUE, over those that Run sets.
	Env []string
	// MaxDeliveries bounds how often a batch is delivered until it is settled, not counting those that Run itself kills.
	MaxDeliveries int
	// Timeout is the function's.
	Timeout time.Duration
	// Log gets what the function prints.
	Log io.Writer
	// Progress is called when a pass begins, with what tells how far it is, and returns what to call at its end. It may be nil.
	Progress func(line func() string) (stop func())
}

// StoreFake is the in-process DynamoDB and SQS.
const StoreFake = "fake"

// The function's variables that the harness looks at, and values of them.
const (
	varStore       = "IDEMSK_STORE"
	varBatching    = "IDEMSK_BATCHING"
	varKey         = "IDEMSK_KEY"
	varMaxAttempts = "IDEMSK_MAX_ATTEMPTS"
	varSimulate    = "IDEMSK_SIMULATE"
	varLetters     = "IDEMSK_DEAD_LETTER_QUEUE_URL"
	varTable       = "IDEMSK_TABLE"
	varLedger      = "IDEMSK_LEDGER_TABLE"

	storeDynamoDB = "dynamodb"
	storeNone     = "none"
)

// environment is the function's variables that are the caller's to choose. The lease is short, so that the keys of a killed
// process are soon free.
func (o *Options) environment() (map[string]string, error) {
	env := map[string]string{
		"IDEMSK_LEASE": "1s", "IDEMSK_MAX_CLOCK_SKEW": "100ms", "IDEMSK_FAILURES": "partial", varSimulate: "on",
		"IDEMSK_LEDGER": "plain", // the gate knows bookings, which have a request of their own then
		varBatching:     "off",   // a kill before one record's effect must not fall between those of others and their completion
		varStore:        storeDynamoDB, varKey: "header:idempotency-key", varMaxAttempts: "5",
	}
	for _, entry := range o.Env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("the variable %q is not NAME=VALUE", entry)
		}
		env[name] = value
	}
	_, err := expect.ReadRules(functionName, variables(env))
	return env, errors.Join(checkEnvironment(env), err)
}

// checkEnvironment refuses what would make the run prove nothing.
func checkEnvironment(env map[string]string) error {
	var errs []error
	for _, name := range []string{
		varTable, varLedger, "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "AWS_REGION",
	} {
		if _, ok := env[name]; ok {
			errs = append(errs, fmt.Errorf("%s can't be set: replay makes tables and endpoints of its own, to see all that passes", name))
		}
	}
	if env[varLetters] != "" {
		errs = append(errs, errors.New(varLetters+" can only be set to nothing: replay reads the letters from a queue of its own"))
	}
	if s := env[varStore]; s != storeDynamoDB && s != storeNone {
		errs = append(errs, fmt.Errorf("IDEMSK_STORE is %q: want dynamodb or none, so that there is a ledger to check", s))
	}
	return errors.Join(errs...)
}

// ErrOptions is what Run returns for options that make no sense.
var ErrOptions = errors.New("replay")

func (o *Options) validate() (map[string]string, error) {
	env, err := o.environment()
	errs := []error{err}
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	s := &o.Stream
	bad(s.Records >= 0 && s.Records <= stream.MaxRecords, "records is %d: want 0 to %d", s.Records, stream.MaxRecords)
	bad(s.Partitions >= 1 && s.Partitions <= stream.MaxPartitions, "partitions is %d: want 1 to %d", s.Partitions, stream.MaxPartitions)
	bad(s.BatchSize >= 1 && s.BatchSize <= stream.MaxBatchSize, "batch-size is %d: want 1 to %d", s.BatchSize, stream.MaxBatchSize)
	bad(o.Duplicates >= 0 && o.Duplicates <= 1, "duplicates is %v: want a chance from 0 to 1", o.Duplicates)
	bad(o.Kills >= 0, "kills is %d: want 0 or more", o.Kills)
	bad(o.MaxDeliveries >= 1, "max-deliveries is %d: want 1 or more", o.MaxDeliveries)
	bad(o.Timeout >= time.Second && o.Timeout <= 15*time.Minute, "timeout is %v: want 1s to 15m", o.Timeout)
	bad(len(o.Files) > 0 || s.Records > 0, "there is nothing to play: name files, or give a number of records")
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return env, nil
}
