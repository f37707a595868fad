package esm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Where reading starts in a partition without a committed offset of the consumer group.
const (
	TrimHorizon = "TRIM_HORIZON" // at the oldest record
	Latest      = "LATEST"       // after the newest record
	AtTimestamp = "AT_TIMESTAMP" // at the first record of StartingPositionTimestamp or later
)

// ReportBatchItemFailures is the only function response type: the function names the records that failed.
const ReportBatchItemFailures = "ReportBatchItemFailures"

// The records that are delivered again if the function named records as failed. AWS documents that these are
// the named ones. Its event sources for other streams resume from the lowest.
const (
	RetryNamed      = "named"       // the named records only
	RetryFromLowest = "from-lowest" // in each partition, all records from the lowest named offset on
)

// Infinite is the value of MaximumRetryAttempts and MaximumRecordAge that sets no limit.
const Infinite = -1

// Bounds of the parameters, as AWS documents them.
const (
	MaxBatchSize      = 10_000
	MaxBatchingWindow = 300 * time.Second
	MaxRetryAttempts  = 10_000
	MinRecordAge      = 60 * time.Second
	MaxRecordAge      = 7 * 24 * time.Hour
	MaxPollers        = 2000
	MaxTimeout        = 14 * time.Minute // of a function with a Kafka event source
	maxGroup          = 200              // bytes of a consumer group's name

	// MaxPayload is the largest event, in bytes: the quota of a synchronous invocation.
	MaxPayload = runtimeapi.MaxPayload

	// attemptsWithDestination replaces infinite retries if there is an on-failure destination.
	attemptsWithDestination = 10
)

// Config are the parameters, named as in CreateEventSourceMapping. DefaultConfig has AWS's defaults.
type Config struct {
	// Events are recorded events. They are delivered instead of a topic's records, one after another and
	// unchanged. The parameters for batching, filtering and offsets do not apply to them.
	Events        []*mskevent.Event
	Topics        []string // one, as on AWS
	ConsumerGroup string   // its committed offsets override StartingPosition

	BatchSize                 int           // records, 1 to MaxBatchSize
	MaximumBatchingWindow     time.Duration // 0 to MaxBatchingWindow
	StartingPosition          string        // TrimHorizon, Latest, AtTimestamp
	StartingPositionTimestamp time.Time     // with AtTimestamp only
	FilterCriteria            string        // JSON, as for the AWS CLI; "" filters nothing
	FunctionResponseTypes     []string      // none, or ReportBatchItemFailures
	// SchemaRegistry validates and converts records by Parts.Schemas, if not nil.
	SchemaRegistry *SchemaRegistry

	MaximumRetryAttempts       int           // after the first attempt; 0 to MaxRetryAttempts, or Infinite
	MaximumRecordAge           time.Duration // MinRecordAge to MaxRecordAge, or Infinite
	BisectBatchOnFunctionError bool
	// OnFailure is DestinationConfig's OnFailure.Destination, "" for none. With one, infinite retries are 10.
	OnFailure string

	// Pollers is the maximum number of batches at a time: 1 to MaxPollers, at most one for each partition.
	Pollers int
	// Timeout is the function's timeout, 1 s to MaxTimeout. It also limits how long a stopping mapping waits
	// for invocations.
	Timeout time.Duration
	// Retry is RetryNamed or RetryFromLowest.
	Retry string
	// RetryDelay is the time before the first retry of a batch, 0 or more. It doubles with each retry, up to
	// maxRetryDelay.
	RetryDelay time.Duration

	// ARNs in events and on-failure messages.
	FunctionARN    string
	EventSourceARN string
}

// DefaultConfig returns the defaults: AWS's own where it documents one.
func DefaultConfig() Config {
	return Config{
		BatchSize: 100, MaximumBatchingWindow: 500 * time.Millisecond, StartingPosition: TrimHorizon,
		MaximumRetryAttempts: Infinite, MaximumRecordAge: Infinite,
		Pollers: 1, Timeout: 30 * time.Second, Retry: RetryNamed, RetryDelay: 100 * time.Millisecond,
		FunctionARN:    "arn:aws:lambda:us-east-1:000000000000:function:function",
		EventSourceARN: "arn:aws:kafka:us-east-1:000000000000:cluster/local/00000000-0000-0000-0000-000000000000-1",
	}
}

// ErrConfig means that a configuration is invalid.
var ErrConfig = errors.New("event source mapping")

// configError is an ErrConfig whose text is that of err alone.
type configError struct{ err error }

func (e *configError) Error() string   { return e.err.Error() }
func (e *configError) Unwrap() []error { return []error{ErrConfig, e.err} }

// Validate returns an error that names every invalid parameter by its flag of idemsk local.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if !c.recorded() {
		errs = append(errs, c.checkTopic())
	}
	check(c.BatchSize >= 1 && c.BatchSize <= MaxBatchSize, "--batch-size is %d: want 1 to %d", c.BatchSize,
		MaxBatchSize)
	check(c.MaximumBatchingWindow >= 0 && c.MaximumBatchingWindow <= MaxBatchingWindow,
		"--maximum-batching-window is %s: want 0s to %s", c.MaximumBatchingWindow, MaxBatchingWindow)
	check(slices.Contains([]string{TrimHorizon, Latest, AtTimestamp}, c.StartingPosition),
		"--starting-position is %q: want %s, %s or %s", c.StartingPosition, TrimHorizon, Latest, AtTimestamp)
	check((c.StartingPosition == AtTimestamp) != c.StartingPositionTimestamp.IsZero(),
		"--starting-position-timestamp and --starting-position %s go together: give both or neither",
		AtTimestamp)
	for _, kind := range c.FunctionResponseTypes {
		check(kind == ReportBatchItemFailures, "--function-response-types has %q: want %s or nothing", kind,
			ReportBatchItemFailures)
	}
	check(c.MaximumRetryAttempts >= Infinite && c.MaximumRetryAttempts <= MaxRetryAttempts,
		"--maximum-retry-attempts is %d: want 0 to %d, or %d for no limit", c.MaximumRetryAttempts,
		MaxRetryAttempts, Infinite)
	check(c.MaximumRecordAge == Infinite || c.MaximumRecordAge >= MinRecordAge &&
		c.MaximumRecordAge <= MaxRecordAge,
		"--maximum-record-age is %s: want %s to %s, or leave it out for no limit", c.MaximumRecordAge,
		MinRecordAge, MaxRecordAge)
	check(c.OnFailure != kafkaScheme+c.topic(),
		"--on-failure is %s, the topic that is read: it would never end", c.OnFailure)
	check(c.Pollers >= 1 && c.Pollers <= MaxPollers, "--pollers is %d: want 1 to %d", c.Pollers, MaxPollers)
	check(c.Timeout >= time.Second && c.Timeout <= MaxTimeout, "--timeout is %s: want 1s to %s", c.Timeout,
		MaxTimeout)
	check(c.Retry == RetryNamed || c.Retry == RetryFromLowest, "--retry is %q: want %s or %s", c.Retry,
		RetryNamed, RetryFromLowest)
	check(c.RetryDelay >= 0, "RetryDelay is %s: want 0s or more", c.RetryDelay)
	for _, e := range c.Events {
		check(len(e.Payload) <= MaxPayload, "the event %s has %d bytes: a function takes %d at most", e.Name,
			len(e.Payload), MaxPayload)
	}
	if c.SchemaRegistry != nil {
		errs = append(errs, c.SchemaRegistry.validate())
	}
	_, err := parseFilters(c.FilterCriteria)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return &configError{err}
	}
	return nil
}

// checkTopic checks the topic and the consumer group.
func (c *Config) checkTopic() error {
	var errs []error
	if len(c.Topics) != 1 || c.topic() == "" {
		errs = append(errs, fmt.Errorf("there are %d topics: want one, as on AWS", len(c.Topics)))
	}
	if c.ConsumerGroup == "" || len(c.ConsumerGroup) > maxGroup {
		errs = append(errs, fmt.Errorf("--consumer-group-id is %q: want 1 to %d bytes", c.ConsumerGroup,
			maxGroup))
	}
	for _, topic := range c.Topics {
		errs = append(errs, kafkaclient.CheckTopic(topic))
	}
	return errors.Join(errs...)
}

// recorded reports whether recorded events replace the topic.
func (c *Config) recorded() bool { return len(c.Events) > 0 }

// kafkaScheme is the prefix of a destination that is a topic of the same cluster.
const kafkaScheme = "kafka://"

// KafkaTopic returns the topic of an on-failure destination, and false if the destination is not a topic.
func KafkaTopic(destination string) (topic string, ok bool) {
	return strings.CutPrefix(destination, kafkaScheme)
}

func (c *Config) topic() string { return cmp.Or(c.Topics...) }

// partial reports whether the function's answers are parsed.
func (c *Config) partial() bool {
	return slices.Contains(c.FunctionResponseTypes, ReportBatchItemFailures)
}

// maxRetries returns the maximum number of retries of a batch, and false if there is no limit.
func (c *Config) maxRetries() (n int, limited bool) {
	if c.MaximumRetryAttempts == Infinite && c.OnFailure != "" {
		return attemptsWithDestination, true
	}
	return c.MaximumRetryAttempts, c.MaximumRetryAttempts != Infinite
}
