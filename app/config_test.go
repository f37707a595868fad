package app

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// variable is one environment variable, with the configurations of its values and with invalid values. The
// value "" is the default, because an empty variable counts as not set.
type variable struct {
	name    string
	get     func(c Config) any
	valid   map[string]any
	invalid []string
}

// aRecord is what keys and fingerprints are taken of.
func aRecord() *kafka.Record {
	return &kafka.Record{
		Topic: "t", Partition: 1, Offset: 2, Key: []byte("kafka"), Value: []byte(`{"a":"x","b":{"c":7}}`),
		Headers: []kafka.Header{{Key: "idempotency-key", Value: []byte("default")},
			{Key: "id", Value: []byte("other")}},
	}
}

func keyOf(c Config) any {
	if c.Records.Key == nil {
		return nil
	}
	key, err := c.Records.Key(context.Background(), aRecord())
	if err != nil {
		return err.Error()
	}
	return key
}

func fingerprintOf(c Config) any {
	if c.Records.Fingerprint == nil {
		return nil
	}
	f, err := c.Records.Fingerprint(context.Background(), aRecord())
	if err != nil {
		return err.Error()
	}
	return f
}

const (
	tableARN = "arn:aws:dynamodb:eu-central-1:123456789012:table/t-1"
	queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/q"
)

func variables() []variable {
	day := 24 * time.Hour
	return []variable{
		{
			"IDEMSK_STORE", func(c Config) any { return c.Store },
			map[string]any{"": "dynamodb", "dynamodb": "dynamodb", "memory": "memory", "none": "none"},
			[]string{"DynamoDB", "mysql", " memory"},
		},
		{
			"IDEMSK_STORE_SECRET_ARN", func(c Config) any { return c.StoreSecretARN },
			map[string]any{"": "", "arn:aws:secretsmanager:r:1:secret:s": "arn:aws:secretsmanager:r:1:secret:s"}, nil,
		},
		{
			"IDEMSK_STORE_URL", func(c Config) any { return c.StoreURL },
			map[string]any{"": ""}, nil, // for another store than DynamoDB, see option_test.go
		},
		{
			"IDEMSK_TABLE", func(c Config) any { return c.Table },
			map[string]any{"": "idemsk", "my.table_1": "my.table_1", tableARN: tableARN},
			[]string{"ab", "my table", strings.Repeat("x", 256)},
		},
		{
			"IDEMSK_NAMESPACE", func(c Config) any { return c.Records.Namespace },
			map[string]any{"": "ledger", "payments": "payments", "a@b/c": "a@b/c"}, []string{"a#b"},
		},
		{
			"IDEMSK_KEY_SCOPE", func(c Config) any { return c.Records.KeyScope },
			map[string]any{"": kafka.TopicScope, "topic": kafka.TopicScope,
				"namespace": kafka.NamespaceScope}, []string{"function", "Topic"},
		},
		{
			"IDEMSK_KEY", keyOf,
			map[string]any{
				"": "default", "header:id": "other", "key": "kafka", "json:$.a": "x",
				"json:$.a, $.b.c": `["x",7]`, "offset": "t-1@2",
				"hash":            "e8574b42c5a14672376967daaf807d705aad36a80f627e88f645d662cd9668b3",
				"hash:json":       "e8574b42c5a14672376967daaf807d705aad36a80f627e88f645d662cd9668b3",
				"hash:$.b.c, $.a": "313568b2536f4b170b76c99c2833fd9e2c73332c6beaa23a34c69e53e982f0c8",
			},
			[]string{"header", "header:", "keys", "json:", "json", "json:a", "json:$.a,", "hash:",
				"hash:value", "hash:json,$.a", "offset:1", "Key"},
		},
		{
			"IDEMSK_FINGERPRINT", fingerprintOf,
			map[string]any{
				"": store.FingerprintOf(aRecord().Value), "value": store.FingerprintOf(aRecord().Value),
				"none":           store.Fingerprint{},
				"json:$.b.c,$.a": store.FingerprintOf([]byte(`[7,"x"]`)),
			},
			[]string{"json:", "json:b", "hash", "None"},
		},
		{
			"IDEMSK_HASH_KEYS", func(c Config) any { return c.Engine.HashKeys },
			map[string]any{"": false, "false": false, "true": true}, []string{"1", "yes", "True"},
		},
		{
			"IDEMSK_MISSING_KEY", func(c Config) any { return c.Records.MissingKey },
			map[string]any{"": kafka.Reject, "reject": kafka.Reject, "process": kafka.Process},
			[]string{"ignore"},
		},
		{
			"IDEMSK_ORDER", func(c Config) any { return c.Records.Order },
			map[string]any{"": kafka.ByPartition, "partition": kafka.ByPartition, "key": kafka.ByKey,
				"none": kafka.Unordered}, []string{"topic"},
		},
		{
			"IDEMSK_CONCURRENCY", func(c Config) any { return c.Records.Concurrency },
			map[string]any{"": 32, "1": 1, "10000": 10000},
			[]string{"0", "-1", "10001", "many", "1.5", "99999999999999999999"},
		},
		{
			"IDEMSK_LEASE", func(c Config) any { return c.Engine.Lease },
			map[string]any{"": 30 * time.Second, "100ms": 100 * time.Millisecond, "1h": time.Hour},
			[]string{"30", "99ms", "61m", "-30s", "0"},
		},
		{
			"IDEMSK_MAX_CLOCK_SKEW", func(c Config) any { return c.MaxClockSkew },
			map[string]any{"": time.Second, "0s": time.Duration(0), "1m": time.Minute},
			[]string{"-1s", "61s", "1"},
		},
		{
			"IDEMSK_WAIT", func(c Config) any { return c.Engine.Wait },
			map[string]any{"": time.Duration(0), "deadline": time.Duration(0), "0": time.Duration(-1),
				"0s": time.Duration(-1), "15m": 15 * time.Minute},
			[]string{"16m", "-1s", "forever"},
		},
		{
			"IDEMSK_MAX_RESULT", func(c Config) any { return c.Engine.MaxResult },
			map[string]any{"": 4096, "0": -1, "1": 1, "358400": 358400}, []string{"-1", "358401", "4KB"},
		},
		{
			"IDEMSK_DEADLINE_MARGIN", func(c Config) any { return c.Engine.DeadlineMargin },
			map[string]any{"": 500 * time.Millisecond, "1ms": time.Millisecond, "1m": time.Minute},
			[]string{"0", "0s", "61s", "500"},
		},
		{
			"IDEMSK_RETENTION", func(c Config) any { return c.Engine.Retention },
			map[string]any{"": 168 * time.Hour, "30s": 30 * time.Second, "87600h": 3650 * day},
			[]string{"7d", "29s", "87601h", "0", "-1h"},
		},
		{
			"IDEMSK_MAX_ATTEMPTS", func(c Config) any { return c.Engine.MaxAttempts },
			map[string]any{"": 5, "1": 1, "1000000": 1000000}, []string{"0", "-1", "1000001", "five"},
		},
		{
			"IDEMSK_RETRY_DELAY", func(c Config) any { return c.Engine.RetryDelay },
			map[string]any{"": time.Second, "0": time.Duration(-1), "0s": time.Duration(-1),
				"5m": 5 * time.Minute}, []string{"-1s", "5m1s", "10"},
		},
		{
			"IDEMSK_OUTAGE_FAILURES", func(c Config) any { return c.Engine.OutageFailures },
			map[string]any{"": 5, "1": 1, "1000": 1000, "off": -1}, []string{"0", "-1", "1001", "on"},
		},
		{
			"IDEMSK_OUTAGE_LIMIT", func(c Config) any { return c.Engine.OutageLimit },
			map[string]any{"": time.Duration(0), "0s": time.Duration(0), "1h": time.Hour, "168h": 7 * day},
			[]string{"-1s", "169h", "1d"},
		},
		{
			"IDEMSK_DEAD_LETTER_QUEUE_URL", func(c Config) any { return c.DeadLetterQueueURL },
			map[string]any{"": "", queueURL: queueURL,
				"http://127.0.0.1:4566/0/q": "http://127.0.0.1:4566/0/q"},
			[]string{"q", "arn:aws:sqs:eu-central-1:1:q", "https://", "ftp://host/q", "https://%zz"},
		},
		{
			"IDEMSK_DEAD_LETTER_TOPIC", func(c Config) any { return c.DeadLetterTopic },
			map[string]any{"": "", "payments-dead-letters": "payments-dead-letters"},
			[]string{"dead letters", "..", strings.Repeat("t", 250)},
		},
		{
			"IDEMSK_DEAD_LETTER_BUCKET", func(c Config) any { return c.DeadLetterBucket },
			map[string]any{"": ""}, []string{"a-bucket-and-no-dead-letters"},
		},
		{
			"IDEMSK_SCHEMA_REGISTRY", func(c Config) any { return c.Schemas.Registry },
			map[string]any{"": ""}, nil,
		},
		{
			"IDEMSK_SCHEMA_SECRET_ARN", func(c Config) any { return c.Schemas.SecretARN },
			map[string]any{"": ""}, []string{"arn:of-a-secret-and-no-registry"},
		},
		{
			"IDEMSK_SCHEMA_DECODE", func(c Config) any { return c.Schemas.Converts() },
			map[string]any{"": false, "none": false}, []string{"value", "key", "key,value", "json"},
		},
		{
			"IDEMSK_DEAD_LETTER_MAX_BYTES", func(c Config) any { return c.DeadLetterMaxBytes },
			map[string]any{"": 1048576, "20480": 20480, "1048576": 1048576},
			[]string{"20479", "1048577", "256KiB"},
		},
		{
			"IDEMSK_STORE_DOWN", func(c Config) any { return c.Engine.FailOpen },
			map[string]any{"": false, "closed": false, "open": true},
			[]string{"fail"},
		},
		{
			"IDEMSK_EFFECTS", func(c Config) any { return c.Engine.AtMostOnce },
			map[string]any{"": false, "at-least-once": false}, []string{"exactly-once", "true"},
		},
		{
			"IDEMSK_BATCHING", func(c Config) any { return c.Engine.Unbatched },
			map[string]any{"": false, "on": false, "off": true}, []string{"true"},
		},
		{
			"IDEMSK_COMMIT_WINDOW", func(c Config) any { return c.Engine.CommitWindow },
			map[string]any{"": 256, "1": 1, "10000": 10000}, []string{"0", "10001", "all"},
		},
		{
			nameVariable, func(c Config) any { return c.Function + " " + c.Records.Function },
			map[string]any{"mail": "mail mail"}, nil,
		},
		{
			"IDEMSK_LOG_LEVEL", func(c Config) any { return c.LogLevel },
			map[string]any{"": slog.LevelInfo, "DEBUG": slog.LevelDebug, "warn": slog.LevelWarn,
				"ERROR": slog.LevelError}, []string{"LOUD"},
		},
		{
			"AWS_LAMBDA_LOG_LEVEL", func(c Config) any { return c.LogLevel },
			map[string]any{
				"": slog.LevelInfo, "TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug,
				"INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
				"ERROR": slog.LevelError, "FATAL": slog.LevelError, "Info": slog.LevelInfo,
				"debug": slog.LevelDebug,
			},
			[]string{"NOISY"},
		},
	}
}

func TestEveryVariable(t *testing.T) {
	for _, v := range variables() {
		for value, want := range v.valid {
			t.Run(v.name+"="+value, func(t *testing.T) {
				vs := vars(map[string]string{v.name: value})
				got := v.get(readConfig(vs))
				if err := vs.Err(); err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("%q gives %v; want %v", value, got, want)
				}
			})
		}
		for _, value := range v.invalid {
			t.Run(v.name+"="+value, func(t *testing.T) {
				vs := vars(map[string]string{v.name: value})
				v.get(readConfig(vs)) // and what is returned can be handled
				err := vs.Err()
				if err == nil {
					t.Fatalf("%q is taken", value)
				}
				lines := strings.Split(err.Error(), "\n")
				if len(lines) != 1 || !strings.HasPrefix(lines[0], v.name+" is ") ||
					!strings.Contains(lines[0], ": want ") {
					t.Errorf("%q: errors %q; want one that names the variable, the value and what is wanted",
						value, lines)
				}
			})
		}
	}
}

// The log level does not depend on Lambda's filter.
func TestLogLevelIsIndependentOfLambdas(t *testing.T) {
	cfg := readConfig(vars(map[string]string{"IDEMSK_LOG_LEVEL": "ERROR", "AWS_LAMBDA_LOG_LEVEL": "DEBUG"}))
	equal(t, "level", cfg.LogLevel, slog.LevelError)
}

// The commit window does not bound the handlers unless it is set.
func TestCommitWindowFollowsConcurrency(t *testing.T) {
	for env, want := range map[[2]string]int{{"32", ""}: 256, {"1000", ""}: 2000, {"1000", "10"}: 10} {
		cfg := readConfig(vars(map[string]string{"IDEMSK_CONCURRENCY": env[0], "IDEMSK_COMMIT_WINDOW": env[1]}))
		equal(t, "window", cfg.Engine.CommitWindow, want)
	}
}

// All errors are reported together, so that one correction is enough.
func TestAllInvalidVariablesAreNamed(t *testing.T) {
	env := map[string]string{}
	for _, v := range variables() {
		if v.invalid != nil && v.name != "AWS_LAMBDA_LOG_LEVEL" { // not looked at beside our own
			env[v.name] = v.invalid[0]
		}
	}
	vs := vars(env)
	readConfig(vs)
	lines := strings.Split(vs.Err().Error(), "\n")
	equal(t, "errors", len(lines), len(env))
	for name, value := range env {
		if !slices.ContainsFunc(lines, func(
			line string) bool {
			return strings.HasPrefix(line, name+` is "`+value+`": want `)
		}) {
			t.Errorf("%s=%s is not named in %q", name, value, lines)
		}
	}
}

func TestRetentionShorterThanTheLeaseIsRefused(t *testing.T) {
	vs := vars(map[string]string{"IDEMSK_LEASE": "10m", "IDEMSK_RETENTION": "5m"})
	readConfig(vs)
	equal(t, "error", vs.Err().Error(), `IDEMSK_RETENTION is "5m0s": want at least IDEMSK_LEASE, 10m0s`)
}

// A key that is the hash of parts leaves the other parts of the value out, and so does its fingerprint by
// default.
func TestFingerprintOfHashedPartsIsNoneByDefault(t *testing.T) {
	value := store.FingerprintOf(aRecord().Value)
	for key, want := range map[string]store.Fingerprint{"hash:json": {}, "hash:$.a": {}, "hash": value,
		"json:$.a": value} {
		equal(t, "fingerprint with "+key,
			fingerprintOf(readConfig(vars(map[string]string{"IDEMSK_KEY": key}))), any(want))
		env := map[string]string{"IDEMSK_KEY": key, "IDEMSK_FINGERPRINT": "value"}
		equal(t, "fingerprint value with "+key, fingerprintOf(readConfig(vars(env))), any(value))
	}
}

// A skew of 0 is not replaced by the store's default.
func TestZeroSkewIsPassedToTheStore(t *testing.T) {
	for value, want := range map[string]time.Duration{"": time.Second, "0s": -1, "2s": 2 * time.Second} {
		cfg := readConfig(vars(map[string]string{"IDEMSK_MAX_CLOCK_SKEW": value, "IDEMSK_TABLE": "keys"}))
		equal(t, "table", cfg.dynamo().Table, "keys")
		equal(t, "skew", cfg.dynamo().MaxClockSkew, want)
	}
}

// docs/configuration.md and the code have the same variables and defaults.
func TestConfigurationIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	// app/process and lambda/relay look at the rest
	ours, _, _ := strings.Cut(string(page), "## The consumer process")
	ours = strings.ReplaceAll(ours, "`IDEMSK_FAILURES`", "")     // app/lambda reads it
	ours = strings.ReplaceAll(ours, "`IDEMSK_CALL_RECORDS`", "") // Base.CallRecords reads it
	documented := regexp.MustCompile(`IDEMSK_[A-Z_]+`).FindAllString(ours, -1)
	for _, v := range variables() {
		if !slices.Contains(documented, v.name) && strings.HasPrefix(v.name, "IDEMSK_") {
			t.Errorf("docs/configuration.md says nothing of %s", v.name)
		}
	}
	for _, name := range documented {
		if !slices.ContainsFunc(variables(), func(v variable) bool { return v.name == name }) {
			t.Errorf("docs/configuration.md speaks of %s, which is not read", name)
		}
	}
}

// Without a name two consumers could share keys, so a namespace is required.
func TestNamespaceIsRequiredWithoutAName(t *testing.T) {
	for st, says := range map[string]string{"memory": "IDEMSK_NAMESPACE", "none": ""} {
		v := vars(map[string]string{nameVariable: "", "IDEMSK_STORE": st})
		readConfig(v)
		if err := v.Err(); (err != nil) != (says != "") ||
			(err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("store %s: error %v; want one that says %q", st, err, says)
		}
	}
}
