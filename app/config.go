package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
)

// The values of IDEMSK_STORE.
const (
	StoreDynamoDB = "dynamodb"
	StorePostgres = "postgres" // of package app/postgres
	StoreRedis    = "redis"    // of package app/redis
	StoreMemory   = "memory"
	StoreNone     = "none" // protects nothing, for comparison
)

// Config is the configuration that all hosts have in common. docs/configuration.md explains each variable.
type Config struct {
	// IDEMSK_STORE: dynamodb, postgres, redis, memory, none, or the name of another Store that an Option adds
	Store    string
	StoreURL string // IDEMSK_STORE_URL, of PostgreSQL or Redis
	// IDEMSK_STORE_SECRET_ARN: a secret in Secrets Manager with the URL, or with the credentials for it
	StoreSecretARN string
	Table          string // IDEMSK_TABLE: the table, or the prefix of keys in Redis

	// IDEMSK_LEASE, _RETENTION, _MAX_ATTEMPTS, _RETRY_DELAY, _MAX_RESULT, _DEADLINE_MARGIN, _WAIT,
	// _COMMIT_WINDOW, _HASH_KEYS, _STORE_DOWN, _CLAIM, _EFFECTS, _OUTAGE_FAILURES, _OUTAGE_LIMIT, _BATCHING.
	Engine       idem.Config
	MaxClockSkew time.Duration // IDEMSK_MAX_CLOCK_SKEW

	// IDEMSK_NAMESPACE, _KEY_SCOPE, _KEY, _FINGERPRINT, _MISSING_KEY, _ORDER, _CONCURRENCY. Base.Parts sets
	// the dead letters and the logger.
	Records kafka.Config

	Schemas SchemaConfig

	DeadLetterQueueURL string // IDEMSK_DEAD_LETTER_QUEUE_URL
	DeadLetterMaxBytes int    // IDEMSK_DEAD_LETTER_MAX_BYTES, of a message in the queue
	DeadLetterTopic    string // IDEMSK_DEAD_LETTER_TOPIC, instead of a queue
	DeadLetterBucket   string // IDEMSK_DEAD_LETTER_BUCKET, for large values: NAME or NAME/PREFIX

	Function string     // Defaults.Name
	LogLevel slog.Level // IDEMSK_LOG_LEVEL, or AWS_LAMBDA_LOG_LEVEL
	// LogAttrs is what the logger adds to the lines of a context, if not nil, for observe.LogHandler.
	LogAttrs func(ctx context.Context) []slog.Attr
}

// SchemaConfig configures a program that was given Schemas.
type SchemaConfig struct {
	Registry  string // IDEMSK_SCHEMA_REGISTRY; empty: nothing is decoded
	SecretARN string // IDEMSK_SCHEMA_SECRET_ARN: a secret with the registry's user and password
	// IDEMSK_SCHEMA_DECODE: the handler gets the value, or the Kafka key, as JSON.
	Value, Key bool
}

// Converts reports whether the handler gets converted records.
func (c *SchemaConfig) Converts() bool { return c.Registry != "" && (c.Value || c.Key) }

// Bounds that the packages used here do not define.
const (
	maxRetention = 10 * 365 * 24 * time.Hour
	maxWait      = 15 * time.Minute // the maximum timeout of a function
	maxAttempts  = 1_000_000

	maxOutageFailures = 1000
	maxOutageLimit    = 7 * 24 * time.Hour

	maxConcurrency = 10_000 // the largest batch
	maxCallRecords = store.MaxCommitWindow
)

// Defaults are the defaults of a host.
type Defaults struct {
	// Name is the name of the consumer, and the default of its namespace. It is the value of the environment
	// variable NameVariable.
	Name, NameVariable string
	// Order is the default of IDEMSK_ORDER.
	Order kafka.Order
}

// ReadConfig reads the configuration of a consumer with these options. Errors are collected in v.
func ReadConfig(v *Vars, d Defaults, options ...Option) Config {
	added := collect(options)
	cfg := Config{
		Store:              readStore(v, &added),
		StoreURL:           v.String("IDEMSK_STORE_URL", ""),
		StoreSecretARN:     v.String("IDEMSK_STORE_SECRET_ARN", ""),
		Table:              v.String("IDEMSK_TABLE", ""), // also for a store that the program does not have
		MaxClockSkew:       v.Duration("IDEMSK_MAX_CLOCK_SKEW", store.DefaultMaxClockSkew, 0, time.Minute),
		DeadLetterQueueURL: v.URL("IDEMSK_DEAD_LETTER_QUEUE_URL"),
		DeadLetterMaxBytes: v.Int("IDEMSK_DEAD_LETTER_MAX_BYTES", sqs.DefaultMaxBytes, sqs.SmallestMaxBytes,
			sqs.LargestMaxBytes),
		Function: d.Name,
	}
	cfg.DeadLetterTopic = readDeadLetterTopic(v, added.topic)
	cfg.DeadLetterBucket = readDeadLetterBucket(v, &cfg, added.bucket)
	cfg.Schemas = readSchemas(v, added.schema)
	cfg.Records = readRecords(v, d)
	cfg.Engine = readEngine(v, cfg.Records.Concurrency)
	switch {
	case cfg.Store == StoreNone: // each record has its own key
		cfg.Records.Key, cfg.Records.Namespace = kafka.OffsetKey, cmp.Or(cfg.Records.Namespace, StoreNone)
	case cfg.Records.Namespace == "":
		v.Fail("IDEMSK_NAMESPACE", "", "the name of this consumer, such as its function or consumer group ("+
			d.NameVariable+", its default, is not set)")
	}
	cfg.LogLevel = readLogLevel(v)
	switch s := added.store(cfg.Store); {
	case s != nil:
		s.Read(v, &cfg)
	case cfg.Store == StorePostgres:
		v.Fail("IDEMSK_STORE", cfg.Store, imported("postgres"))
	case cfg.Store == StoreRedis:
		v.Fail("IDEMSK_STORE", cfg.Store, imported("redis"))
	case cfg.Store == StoreDynamoDB && cfg.StoreURL != "":
		v.Fail("IDEMSK_STORE", cfg.Store, "postgres or redis, as IDEMSK_STORE_URL is set")
	default:
		cfg.Table = v.Table("IDEMSK_TABLE", dynamostore.DefaultTable)
	}
	checkEffects(v, &cfg)
	cfg.Engine.Unbatched = v.OneOf("IDEMSK_BATCHING", "on", "off") == "off"
	return cfg
}

// The variable of idem.Config.AtMostOnce, and its value.
const effectsVariable, atMostOnce = "IDEMSK_EFFECTS", "at-most-once"

// checkEffects refuses what at-most-once can't keep its promise with. Base.Parts refuses it without dead
// letters.
func checkEffects(v *Vars, cfg *Config) {
	const name, value = effectsVariable, atMostOnce
	if !cfg.Engine.AtMostOnce {
		return
	}
	if cfg.Engine.FailOpen {
		v.Fail(name, value, "IDEMSK_STORE_DOWN=closed, because an attempt without a claim leaves no trace")
	}
	if cfg.Store == StoreNone {
		v.Fail(name, value, "a store, because an attempt without a claim leaves no trace (IDEMSK_STORE is none)")
	}
}

// readDeadLetterTopic reads the name of the topic, and the variables of its client.
func readDeadLetterTopic(v *Vars, client *DeadLetterTopic) string {
	const name, queue = "IDEMSK_DEAD_LETTER_TOPIC", "IDEMSK_DEAD_LETTER_QUEUE_URL"
	topic := v.String(name, "")
	switch {
	case topic == "":
	case !kafka.ValidTopic(topic):
		v.Fail(name, topic, kafka.TopicNameRule)
	case v.String(queue, "") != "":
		v.Fail(name, topic, "either a topic or a queue for dead letters, and "+queue+" is set")
	case client == nil:
		v.Fail(name, topic, "a queue ("+queue+"), or a program with a client of Kafka: "+
			"import github.com/idemsk/idemsk/app/topic in its main package, and pass topic.DeadLetters() to Start")
	default:
		client.Read(v)
	}
	return topic
}

// readDeadLetterBucket reads the bucket for the values of large dead letters.
func readDeadLetterBucket(v *Vars, c *Config, client *DeadLetterBucket) string {
	const name = "IDEMSK_DEAD_LETTER_BUCKET"
	bucket := v.String(name, "")
	switch {
	case bucket == "":
	case c.DeadLetterQueueURL == "" && c.DeadLetterTopic == "":
		v.Fail(name, bucket, "a queue or a topic for the dead letters too, IDEMSK_DEAD_LETTER_QUEUE_URL or IDEMSK_DEAD_LETTER_TOPIC")
	case client == nil:
		v.Fail(name, bucket, "a program with a client of S3: "+
			"import github.com/idemsk/idemsk/app/s3 in its main package, and pass s3.DeadLetterValues() to Start")
	default:
		client.Check(v, name, bucket)
	}
	return bucket
}

// readSchemas reads the schema registry, and what it is used for.
func readSchemas(v *Vars, decoders *Schemas) SchemaConfig {
	const name, arn, decode = "IDEMSK_SCHEMA_REGISTRY", "IDEMSK_SCHEMA_SECRET_ARN", "IDEMSK_SCHEMA_DECODE"
	cfg := SchemaConfig{Registry: v.String(name, ""), SecretARN: v.String(arn, "")}
	which := v.OneOf(decode, "none", "value", "key", "key,value")
	cfg.Value, cfg.Key = strings.Contains(which, "value"), strings.Contains(which, "key")
	if cfg.Registry == "" {
		if cfg.SecretARN != "" {
			v.Fail(arn, cfg.SecretARN, "the registry too, "+name)
		}
		if (cfg.Value || cfg.Key) && v.valid(decode) {
			v.Fail(decode, which, "the registry too, "+name)
		}
		return cfg
	}
	if decoders == nil {
		v.FailSecret(name, "a program that decodes: idemsk-consumer, or the layer idemsk-layer-ARCH-schemas.zip; "+
			"a handler in Go passes schemaapp.Build to Start instead")
		return cfg
	}
	decoders.Check(v, &cfg)
	return cfg
}

// memory returns the memory store's configuration. Its batches are as large as DynamoDB's, so that a local
// run executes the same code.
func memory() memstore.Config {
	return memstore.Config{BatchSize: dynamostore.MaxBatchSize}
}

// dynamo returns the DynamoDB store's configuration. A skew of 0 must be passed as -1, because 0 means the
// default there.
func (c *Config) dynamo() dynamostore.Config {
	return dynamostore.Config{Table: c.Table, MaxClockSkew: cmp.Or(c.MaxClockSkew, -1),
		Unbatched: c.Engine.Unbatched}
}

func readStore(v *Vars, added *options) string {
	const name = "IDEMSK_STORE"
	s := v.String(name, StoreDynamoDB)
	switch s {
	case StoreDynamoDB, StorePostgres, StoreRedis, StoreMemory, StoreNone:
		return s
	}
	names := []string{StoreDynamoDB, StorePostgres, StoreRedis, StoreMemory, StoreNone}
	for i := range added.stores {
		if added.stores[i].Name == s {
			return s
		}
		if !slices.Contains(names, added.stores[i].Name) {
			names = append(names, added.stores[i].Name)
		}
	}
	v.Fail(name, s, "one of "+strings.Join(names, ", "))
	return s
}

func readEngine(v *Vars, concurrency int) idem.Config {
	cfg := idem.Config{
		Lease:          v.Duration("IDEMSK_LEASE", idem.Defaults().Lease, store.MinLease, store.MaxLease),
		Retention:      v.Duration("IDEMSK_RETENTION", idem.Defaults().Retention, time.Second, maxRetention),
		MaxAttempts:    v.Int("IDEMSK_MAX_ATTEMPTS", idem.Defaults().MaxAttempts, 1, maxAttempts),
		RetryDelay:     v.Duration("IDEMSK_RETRY_DELAY", idem.Defaults().RetryDelay, 0, idem.MaxRetryDelay),
		OutageFailures: readOutageFailures(v),
		OutageLimit:    v.Duration("IDEMSK_OUTAGE_LIMIT", 0, 0, maxOutageLimit),
		MaxResult:      v.Int("IDEMSK_MAX_RESULT", idem.Defaults().MaxResult, 0, store.MaxResult),
		DeadlineMargin: v.Duration("IDEMSK_DEADLINE_MARGIN", idem.Defaults().DeadlineMargin, time.Millisecond,
			time.Minute),
		Wait: readWait(v),
		CommitWindow: v.Int("IDEMSK_COMMIT_WINDOW", idem.DefaultCommitWindow(concurrency), 1,
			store.MaxCommitWindow),
		HashKeys: v.Bool("IDEMSK_HASH_KEYS", false),
	}
	cfg.AtMostOnce = v.OneOf(effectsVariable, "at-least-once", atMostOnce) == atMostOnce
	if cfg.Retention < cfg.Lease && v.valid("IDEMSK_RETENTION", "IDEMSK_LEASE") {
		v.Fail("IDEMSK_RETENTION", cfg.Retention.String(), "at least IDEMSK_LEASE, "+cfg.Lease.String())
	}
	if cfg.RetryDelay == 0 {
		cfg.RetryDelay = -1
	}
	if cfg.MaxResult == 0 {
		cfg.MaxResult = -1
	}
	cfg.FailOpen = v.OneOf("IDEMSK_STORE_DOWN", "closed", "open") == "open"
	return cfg
}

func readOutageFailures(v *Vars) int {
	const name = "IDEMSK_OUTAGE_FAILURES"
	s := v.String(name, strconv.Itoa(idem.Defaults().OutageFailures))
	if s == "off" {
		return -1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxOutageFailures {
		v.Fail(name, s, "off, or a number from 1 to "+strconv.Itoa(maxOutageFailures))
	}
	return n
}

func readWait(v *Vars) time.Duration {
	const name = "IDEMSK_WAIT"
	s := v.String(name, "deadline")
	if s == "deadline" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxWait {
		v.Fail(name, s, "deadline, 0, or a duration of at most "+maxWait.String())
	}
	if d == 0 {
		return -1
	}
	return d
}

func readRecords(v *Vars, d Defaults) kafka.Config {
	cfg := kafka.Config{
		Key:         readKey(v),
		Fingerprint: readFingerprint(v),
		Namespace:   v.String("IDEMSK_NAMESPACE", d.Name),
		Concurrency: v.Int("IDEMSK_CONCURRENCY", idem.DefaultConcurrency, 1, maxConcurrency),
		Function:    d.Name,
		Order:       readOrder(v, d.Order),
	}
	if strings.Contains(cfg.Namespace, "#") {
		v.Fail("IDEMSK_NAMESPACE", cfg.Namespace, "a name without '#'")
	}
	if v.OneOf("IDEMSK_KEY_SCOPE", "topic", "namespace") == "namespace" {
		cfg.KeyScope = kafka.NamespaceScope
	}
	if v.OneOf("IDEMSK_MISSING_KEY", "reject", "process") == "process" {
		cfg.MissingKey = kafka.Process
	}
	return cfg
}

func readOrder(v *Vars, def kafka.Order) kafka.Order {
	const name = "IDEMSK_ORDER"
	switch s := v.String(name, ""); s {
	case "":
	case "partition":
		return kafka.ByPartition
	case "key":
		return kafka.ByKey
	case "none":
		return kafka.Unordered
	default:
		v.Fail(name, s, "one of partition, key, none")
	}
	return def
}

func readKey(v *Vars) kafka.KeyFunc {
	const name = "IDEMSK_KEY"
	s := v.String(name, "header:"+kafka.DefaultKeyHeader)
	kind, arg, _ := strings.Cut(s, ":")
	switch {
	case kind == "header" && arg != "":
		return kafka.HeaderKey(arg)
	case s == "key":
		return kafka.RecordKey
	case s == "hash":
		return kafka.ValueHashKey
	case s == "offset":
		return kafka.OffsetKey
	case kind == "json":
		return pathsOf(v, name, s, arg, kafka.JSONKey)
	case s == hashJSON:
		key, _ := kafka.ValueHashJSONKey() // no path that could be wrong
		return key
	case kind == "hash":
		return pathsOf(v, name, s, arg, kafka.ValueHashJSONKey)
	}
	v.Fail(name, s, "header:NAME, key, json:$.a,$.b, hash, hash:json, hash:$.a,$.b or offset")
	return nil
}

const hashJSON = "hash:json"

// pathsOf returns what is made of the paths in the value of a variable, "KIND:PATH,…".
func pathsOf[F any](v *Vars, name, value, paths string, of func(paths ...string) (F, error)) F {
	f, err := of(strings.Split(paths, ",")...)
	if err != nil {
		kind, _, _ := strings.Cut(value, ":")
		v.Fail(name, value, kind+":PATH,…: "+err.Error())
	}
	return f
}

func readFingerprint(v *Vars) kafka.FingerprintFunc {
	const name = "IDEMSK_FINGERPRINT"
	def := "value"
	if strings.HasPrefix(v.String("IDEMSK_KEY", ""), "hash:") {
		def = "none" // values of one key differ in what the key leaves out
	}
	s := v.String(name, def)
	paths, isJSON := strings.CutPrefix(s, "json:")
	switch {
	case s == "value":
		return kafka.ValueFingerprint
	case s == "none":
		return kafka.NoFingerprint
	case isJSON:
		return pathsOf(v, name, s, paths, kafka.JSONFingerprint)
	}
	v.Fail(name, s, "value, json:$.a,$.b or none")
	return nil
}

// readLogLevel reads the log level of this library. Its default is the level of Lambda's log filter, in any
// case (LocalStack writes "Info"). The two levels are independent: Lambda's filter also drops metrics, which
// have no level and count as INFO.
// https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
func readLogLevel(v *Vars) slog.Level {
	name := "AWS_LAMBDA_LOG_LEVEL"
	if v.String("IDEMSK_LOG_LEVEL", "") != "" {
		name = "IDEMSK_LOG_LEVEL"
	}
	switch s := v.String(name, "INFO"); strings.ToUpper(s) {
	case "INFO":
	case "TRACE", "DEBUG":
		return slog.LevelDebug
	case "WARN":
		return slog.LevelWarn
	case "ERROR", "FATAL":
		return slog.LevelError
	default:
		v.Fail(name, s, "one of INFO, TRACE, DEBUG, WARN, ERROR, FATAL")
	}
	return slog.LevelInfo
}
