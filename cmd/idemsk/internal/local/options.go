package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/payments"
)

// Where the function's tables and queue are.
const (
	StoreFake = "fake" // in this process; the function's environment points there
	StoreNone = "none" // the function's own business: nothing is set for it
)

// What Options.Store can be, beside StoreFake and StoreNone.
const (
	storeDynamoDB = "dynamodb"
	storePostgres = "postgres"
	storeRedis    = "redis"
)

// Build is the build of this project's function that a store needs: "" the usual one, or "postgres" or "redis".
func (o *Options) Build() string {
	if kind := o.storeKind(); kind == storePostgres || kind == storeRedis {
		return kind
	}
	return ""
}

// storeKind tells what the store is; "" if that makes no sense.
func (o *Options) storeKind() string {
	scheme, rest, _ := strings.Cut(o.Store, "://")
	switch {
	case o.Store == StoreFake, o.Store == StoreNone:
		return o.Store
	case rest == "":
	case scheme == "http", scheme == "https":
		return storeDynamoDB
	case scheme == "postgres", scheme == "postgresql":
		return storePostgres
	case scheme == "redis", scheme == "rediss":
		return storeRedis
	}
	return ""
}

// What Options.Host can be.
const (
	HostLambda  = "lambda"  // an event source invokes a function
	HostProcess = "process" // processes consume the topic as members of a group
)

// Options say what to run, on what, and what is to go wrong.
type Options struct {
	// ESM are the parameters of the event source mapping; FunctionARN is set by Run. Where it has Events, they take the place
	// of a topic, and the run ends when they are delivered: then there is no broker.
	ESM esm.Config
	// Brokers are the cluster's addresses; none: a broker in this process, with a topic of so many Partitions.
	Brokers    []string
	Partitions int
	// Ports are those of what runs in this process.
	Ports Ports
	// Kafka is how to prove to the brokers who one is; may be empty.
	Kafka []kgo.Opt
	// Produce is how many payments are produced to the topic as soon as it runs, made from Seed.
	Produce int
	// Copies is the share of them that the producer sends twice, 0 to 1; 0: payments.DefaultCopies.
	Copies float64

	// Host is HostLambda (also if it is empty) or HostProcess, with so many Processes. Then Function is the command of a process that is
	// configured as by package kafka/app, and what is said of invocations and of the mapping does not apply, but for the topic and the
	// group.
	Host      string
	Processes int
	// Function is the command of a function that speaks the Runtime API, Invoke the URL of a Lambda Invoke endpoint: one of them.
	Function string
	Invoke   string
	// Example says that the function is this project's example: it gets variables that no other reads.
	Example bool
	// FunctionName is the function's name; at an endpoint its URL may hold it.
	FunctionName string
	// Env are variables of the function as NAME=VALUE, over those that Run sets.
	Env []string
	// InitTimeout is how long a process of the function may take until it asks for work; 0: 10 s, as on AWS.
	InitTimeout time.Duration
	// Store is StoreFake, StoreNone, the URL of a DynamoDB on this machine (http://…), or that of a PostgreSQL or Redis
	// (postgres://…, redis://…), which the function is then told.
	Store string
	// Tables are further tables that are made in the DynamoDB in this process, each as NAME=KEY: its name, and that of its
	// partition key, which is a string.
	Tables []string
	// AWS loads the configuration of what is asked for at AWS or at an endpoint: the function by Invoke, on-failure
	// destinations. Endpoint reports whether it names one for all services.
	AWS      func(ctx context.Context) (aws.Config, error)
	Endpoint bool

	// Faults are what goes wrong by itself.
	Faults Faults
	// Seed repeats the payments, and the faults that a batch with the same first record meets.
	Seed uint64

	// UntilDrained ends the run when nothing is left to deliver and everything is committed.
	UntilDrained bool
	// Prove holds the ledger of this project's function against the records of the run, at its end.
	Prove bool
	// Unprotected has that function run without idemsk, for comparison.
	Unprotected bool
	// Cut, with a value after the context is done, cuts off what is still with the function. It may be nil.
	Cut <-chan struct{}
	// Toggle enables or disables the mapping, in turns, with each value. It may be nil.
	Toggle <-chan struct{}

	// Log gets what the function prints, a line at a time.
	Log io.Writer
	// Say shows a line that stays. It may be called by several goroutines at once.
	Say func(line string)
	// Show shows what the view says from time to time, until stop is called. It may be nil.
	Show func(v *View) (stop func())
}

// Ports are ports of 127.0.0.1; 0 is a free one.
type Ports struct{ Broker, DynamoDB, SQS int }

// loopback is the address of a port.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Faults are chances from 0 to 1 that something goes wrong with a batch, or an invocation of it.
type Faults struct {
	Duplicate  float64 // a batch that is done with is delivered again before its offsets are committed
	Kill       float64 // the function's process is killed in the middle of an invocation
	KillAt     string  // at which moment of it: KillAny, KillBeforeEffect or KillAfterEffect; "" is KillAny
	Concurrent float64 // an invocation is made twice at once, to two processes
	// Slow delays each invocation by up to this time.
	Slow time.Duration
}

func (f *Faults) any() bool { return *f != Faults{KillAt: f.KillAt} }

// atEffect reports whether processes are killed exactly before or after an effect.
func (f *Faults) atEffect() bool { return f.KillAt == KillBeforeEffect || f.KillAt == KillAfterEffect }

// ErrOptions is what Run returns for invalid options.
var ErrOptions = errors.New("invalid options")

// optionsError is an ErrOptions that says what is wrong, and nothing else.
type optionsError struct{ err error }

func (e *optionsError) Error() string   { return e.err.Error() }
func (e *optionsError) Unwrap() []error { return []error{ErrOptions, e.err} }

// joined returns the addresses of brokers as flags and variables have them.
func joined(brokers []string) string { return strings.Join(brokers, ",") }

func optionsf(format string, args ...any) error { return &optionsError{fmt.Errorf(format, args...)} }

const (
	maxPort       = 1<<16 - 1
	maxPartitions = 1000 // of the broker in this process
)

// checkFunc notes an error, in the format of fmt.Errorf, unless ok is true.
type checkFunc func(ok bool, format string, args ...any)

// checkOwn refuses invalid options of the broker, the tables and the queue in this process.
func (o *Options) checkOwn(check checkFunc) {
	for name, port := range map[string]int{"--broker-port": o.Ports.Broker, "--dynamodb-port": o.Ports.DynamoDB, "--sqs-port": o.Ports.SQS} {
		check(port >= 0 && port <= maxPort, "%s is %d: want 1 to %d, or 0 for a free one", name, port, maxPort)
	}
	check(o.Ports.Broker == 0 || len(o.Brokers) == 0, "--broker-port and --brokers exclude each other: one is for the broker in this process")
	check(o.Ports.DynamoDB == 0 || o.storeKind() == StoreFake, "--dynamodb-port needs --store fake: it is for the DynamoDB in this process")
	check(len(o.Tables) == 0 || o.storeKind() == StoreFake, "--create-table needs --store fake: it is for the DynamoDB in this process")
	for _, table := range o.Tables {
		name, key, _ := strings.Cut(table, "=")
		check(name != "" && key != "", "--create-table %q is not NAME=KEY", table)
	}
	check(o.Ports.SQS == 0 || o.ownStore(), "--sqs-port needs --function, and a --store: it is for the SQS in this process")
	check(o.storeKind() != StoreFake || o.variable("IDEMSK_OUTBOX") != "on", "IDEMSK_OUTBOX=on needs a DynamoDB with streams, as the one in this process is not: "+
		"run localstack/localstack.sh dynamodb-local 8000, and give --store http://127.0.0.1:8000")
}

// processes reports whether processes consume the topic.
func (o *Options) processes() bool { return o.Host == HostProcess }

const maxProcesses = 100

// checkHost refuses what has no meaning for processes.
func (o *Options) checkHost(check checkFunc) {
	switch o.Host {
	case "", HostLambda:
		return
	case HostProcess:
	default:
		check(false, "--host is %q: want %s or %s", o.Host, HostLambda, HostProcess)
		return
	}
	f := &o.Faults
	check(o.Processes >= 1 && o.Processes <= maxProcesses, "--processes is %d: want 1 to %d", o.Processes, maxProcesses)
	check(o.Invoke == "" && len(o.ESM.Events) == 0, "--host process reads a topic itself: no --invoke, no --events")
	check(f.Duplicate == 0 && f.Slow == 0 && !f.atEffect(), "--duplicate, --slow and --kill-at need --host lambda: "+
		"processes are not invoked; --producer-duplicates produces records twice")
	check(f.Concurrent == 0 || o.Processes > 1, "--concurrent-duplicates needs --processes 2 or more: others get the partitions of a process that is paused")
	check(!o.Prove || f.Kill == 0 || o.variable("IDEMSK_LEDGER") != "plain", "--prove and --kill need IDEMSK_LEDGER=atomic with --host process: "+
		"its audit does not name the process that made a booking")
}

// ownStore reports whether the run has an SQS, and perhaps tables, of its own.
func (o *Options) ownStore() bool { return o.Store != StoreNone && o.Function != "" }

// variable returns the last value of a variable in Env.
func (o *Options) variable(name string) (value string) {
	for _, entry := range o.Env {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			value = v
		}
	}
	return value
}

// example reports whether the function is the example, or has to be one for what is asked for.
func (o *Options) example() bool { return o.Example || o.Produce > 0 || o.Prove }

// validate returns the function's command, if it has one.
func (o *Options) validate() (command []string, err error) {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check((o.Function == "") != (o.Invoke == ""), "give a function: --function with its command, or --invoke with the URL of an Invoke endpoint; not both")
	check(o.storeKind() != "", "--store is %q: want %s, %s, or a URL with http, https, postgres, redis or rediss", o.Store, StoreFake, StoreNone)
	check(o.Partitions >= 1 && o.Partitions <= maxPartitions, "--partitions is %d: want 1 to %d", o.Partitions, maxPartitions)
	check(o.Produce >= 0 && o.Produce <= payments.MaxRecords, "--produce is %d: want 0 to %d", o.Produce, payments.MaxRecords)
	check(o.Copies >= 0 && o.Copies <= 1, "--producer-duplicates is %v: want a share from 0 to 1", o.Copies)
	for name, chance := range map[string]float64{
		"--duplicate": o.Faults.Duplicate, "--kill": o.Faults.Kill, "--concurrent-duplicates": o.Faults.Concurrent,
	} {
		check(chance >= 0 && chance <= 1, "%s is %v: want a chance from 0 to 1", name, chance)
	}
	check(o.Faults.Slow >= 0, "--slow is %s: want 0s or more", o.Faults.Slow)
	check(o.InitTimeout >= 0, "--init-timeout is %s: want 0s or more", o.InitTimeout)
	check(o.Invoke == "" || o.InitTimeout == 0, "--init-timeout needs --function: what runs behind an endpoint is not started from here")
	check(o.Invoke == "" || o.Faults.Kill == 0, "--kill needs --function: what runs behind an endpoint can't be killed from here")
	check(o.Faults.atEffect() || o.Faults.KillAt == "" || o.Faults.KillAt == KillAny, "--kill-at is %q: want %s, %s or %s",
		o.Faults.KillAt, KillAny, KillBeforeEffect, KillAfterEffect)
	check(!o.Faults.atEffect() || o.Faults.Kill > 0 && o.storeKind() == StoreFake,
		"--kill-at %s needs --kill, and --store fake: it watches the DynamoDB in this process", o.Faults.KillAt)
	check(o.Invoke == "" || len(o.Env) == 0, "--env needs --function: what runs behind an endpoint has its own environment")
	for _, entry := range o.Env {
		name, _, ok := strings.Cut(entry, "=")
		check(ok && name != "", "--env %q is neither NAME=VALUE nor a variable that is set here", entry)
	}
	o.checkHost(check)
	o.checkEvents(check)
	o.checkOwn(check)
	o.checkProve(check)
	if o.Function != "" {
		var err error
		command, err = Words(o.Function)
		check(err == nil, "--function %q can't be split into words: %v", o.Function, err)
	}
	errs = append(errs, o.ESM.Validate())
	if err := errors.Join(errs...); err != nil {
		return nil, &optionsError{err}
	}
	return command, nil
}
