package simulation_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dimension is something of which a seed picks one value: a variable of docs/configuration.md, or what else a
// run has, which has a name in lower case. The first value is the one that shrinking returns to.
type dimension struct {
	name   string
	values []value
	when   needs // a configuration has this dimension only with these values of earlier ones
	// it is the same in both deployments, because a change forgets keys, or makes two requests of one
	shared bool
}

// value is a value of a dimension, which may need values of earlier ones.
type value struct {
	text  string
	needs needs
}

// needs are values of other dimensions, by name, of which there must be one.
type needs map[string][]string

// of returns values that need nothing.
func of(texts ...string) (values []value) {
	for _, text := range texts {
		values = append(values, value{text: text})
	}
	return values
}

// with adds a value that needs something.
func with(values []value, text string, n needs) []value { return append(values, value{text, n}) }

var (
	inFunction = needs{"host": {"function"}}
	inProcess  = needs{"host": {"process"}}
	// Without a queue a record that is never accepted holds up its partition.
	withLetters = needs{"letters": {"queue", "slow queue"}}
	// A function behind the layer has no transaction of the store.
	inStore     = needs{"handler": {"record", "bulk", "bulk that throws", "bulk that stops"}}
	inCalls     = needs{"handler": {"bulk", "bulk that throws", "bulk that stops", "layer"}}
	fewAttempts = needs{"IDEMSK_MAX_ATTEMPTS": {"3"}}
	isRedriven  = needs{"redrive": {"topic", "function"}}
	// A redrive of an unknown outcome does nothing before an operator resolves it (lambda/msk tests that).
	canBeAtMostOnce = needs{"letters": {"queue", "slow queue"}, "redrive": {"none"}}
	mayRepeat       = needs{effects: {"at-least-once"}}
)

// dimensions are what a configuration is made of. A dimension stands behind those that it needs.
var dimensions = []dimension{
	// Where records come from, and what handles them.
	{name: "host", values: of("function", "process")},
	{name: "pollers", values: of("1", "2", "3")},
	{name: "partitions", values: of("1", "2", "3")},
	{name: "handler", values: with(of("record", "bulk", "bulk that throws", "bulk that stops"), "layer", inFunction)},
	{name: "bisect", values: of("no", "yes"), when: inFunction},
	{name: "retries", values: of("unlimited", "8"), when: inFunction},
	{name: "record age", values: of("unlimited", "1m"), when: inFunction},
	{name: "member", values: of("dynamic", "static"), when: inProcess},
	{name: "deployment", values: of("none", "same", "other")},
	{name: "clocks", values: of("within the skew", "beyond the skew")},
	{name: "effects", values: with(with(of("none", "fenced"), "enlisted", inStore), "outbox", inStore)},
	{name: "letters", values: of("queue", "slow queue", "none")},

	// What producers write.
	{name: "copies", values: of("no", "same partition", "other partitions")},
	{name: "other values", values: with(of("no"), "yes", withLetters)},
	{name: "keyless", values: with(of("no"), "yes", withLetters)},
	{name: "tombstones", values: with(of("no"), "yes", withLetters)},
	{name: "failures", values: with(of("no", "temporary"), "permanent", withLetters)},
	{name: "poison", values: with(of("no"), "yes", withLetters)},
	{name: "slow records", values: of("no", "yes")},
	{name: "refused effects", values: of("no", "yes"), when: needs{"effects": {"enlisted", "outbox"}}},
	{name: "registry", values: of("none", "silent")},

	// What operators do.
	{name: "redrive", values: with(with(of("none"), "topic", withLetters), "function",
		needs{"host": {"function"}, "letters": {"queue", "slow queue"}})},
	{name: "redrive of", values: of("all", "some"), when: isRedriven},
	{name: "redrive times", values: of("once", "twice"), when: isRedriven},
	{name: "delete entries", values: of("no", "yes")},
	{name: "add partitions", values: of("no", "yes")},
	{name: "offsets", values: of("kept", "back", "forward", "deleted")},
	{name: "topic", values: of("kept", "recreated")},

	{name: effects, values: with(of("at-least-once"), "at-most-once", canBeAtMostOnce), shared: true},
	{name: "IDEMSK_LEASE", values: of("2s", "1s", "5s"), shared: true},
	{name: "IDEMSK_KEY", values: of("header:idempotency-key", "key", "json:$.id", "hash", "offset"),
		shared: true},
	{name: "IDEMSK_KEY_SCOPE", values: of("topic", "namespace"), shared: true},
	{name: "IDEMSK_HASH_KEYS", values: of("false", "true"), shared: true},
	{name: "IDEMSK_MISSING_KEY", values: of("reject", "process"), shared: true},
	{name: "IDEMSK_FINGERPRINT", values: of("value", "none"), shared: true},
	{name: "IDEMSK_ORDER", values: of("partition", "key", "none"), shared: true},
	{name: "IDEMSK_FAILURES", values: of("batch", "partial"), when: inFunction},
	{name: "IDEMSK_BATCHING", values: of("on", "off")},
	{name: "IDEMSK_CONCURRENCY", values: of("8", "1", "2")},
	{name: "IDEMSK_COMMIT_WINDOW", values: of("256", "1", "4")},
	{name: "IDEMSK_CALL_RECORDS", values: of("10000", "1", "2", "5"), when: inCalls},
	{name: "IDEMSK_WAIT", values: of("deadline", "0", "700ms")},
	{name: "IDEMSK_MAX_ATTEMPTS", values: of("8", "3"), shared: true},
	{name: "IDEMSK_MAX_RESULT", values: of("4096", "0")},
	{name: "IDEMSK_DEADLINE_MARGIN", values: of("500ms", "3s"), when: inFunction},
	{name: "IDEMSK_RETENTION", values: of("168h", "20s"), shared: true},
	// None with many attempts, because payments may need all of them, and the last delays are minutes.
	{name: "IDEMSK_RETRY_DELAY", values: with(with(of("0s"), "5ms", fewAttempts), "1s", fewAttempts)},
	{name: "IDEMSK_OUTAGE_FAILURES", values: of("off", "2", "5")},
	// There is a limit, because payments that never succeed look like an outage.
	{name: "IDEMSK_OUTAGE_LIMIT", values: of("1m", "5m"), when: needs{"IDEMSK_OUTAGE_FAILURES": {"2", "5"}}},
	{name: "IDEMSK_STORE_DOWN", values: with(of("closed"), "open", mayRepeat)},

	// Of a process.
	{name: "IDEMSK_KAFKA_LEAVE", values: of("false", "true"), when: needs{"member": {"static"}}},
	{name: "IDEMSK_COMMIT_INTERVAL", values: of("1s", "5s"), when: inProcess},
	{name: "IDEMSK_DRAIN_TIMEOUT", values: of("20s", "1s"), when: inProcess},
	{name: "IDEMSK_MAX_BYTES", values: of("67108864", "8192"), when: inProcess}, // windows of one or two payments
}

// otherVariables are the variables that no seed picks: how the simulation sets them, or why it does not.
var otherVariables = map[string]string{
	"IDEMSK_STORE":                 "dynamodb: other stores have tortures of their own",
	"IDEMSK_STORE_URL":             "of other stores",
	"IDEMSK_STORE_SECRET_ARN":      "of other stores",
	"IDEMSK_TABLE":                 "the table of the seed",
	"IDEMSK_NAMESPACE":             "the name of the function or the group, as by default, also when the group was deleted",
	"IDEMSK_MAX_CLOCK_SKEW":        "skew; the dimension clocks lets clocks differ by more",
	"IDEMSK_DEAD_LETTER_TOPIC":     "the dimension letters: a queue in the topic's place (process.options)",
	"IDEMSK_DEAD_LETTER_QUEUE_URL": "the dimension letters: the queue has the virtual network (process.options)",
	"IDEMSK_DEAD_LETTER_MAX_BYTES": "payments are small; package kafka/deadletter/sqs tests the limit",
	"IDEMSK_DEAD_LETTER_BUCKET":    "payments are small; package kafka/deadletter/s3 tests it",
	"IDEMSK_SCHEMA_REGISTRY":       "payments are JSON; the dimension registry has keys that wait for one",
	"IDEMSK_SCHEMA_SECRET_ARN":     "of a schema registry",
	"IDEMSK_SCHEMA_DECODE":         "it changes what the handler gets; package schemaenv tests it",
	"IDEMSK_LOG_LEVEL":             "it changes no behaviour",

	"IDEMSK_KAFKA_BROKERS":         "the brokers of the seed",
	"IDEMSK_KAFKA_TOPICS":          "the topic of the seed",
	"IDEMSK_KAFKA_GROUP":           "the name of the function",
	"IDEMSK_KAFKA_INSTANCE_ID":     "the dimension member",
	"IDEMSK_KAFKA_PROTOCOL":        "classic",
	"IDEMSK_KAFKA_RESET":           "earliest: package test/kafka has offsets that do not exist",
	"IDEMSK_KAFKA_SESSION_TIMEOUT": "6s, the least that brokers accept by default",
	"IDEMSK_HTTP_ADDR":             "it changes no behaviour",
}

// Each variable that functions and processes read is a dimension, or there is a reason why not.
func TestEachVariableIsADimension(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, found := strings.Cut(string(page), "\n## The maintenance of keys")
	if !found {
		t.Fatal("docs/configuration.md has no section on the maintenance")
	}
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(IDEMSK_[A-Z_]+)` \\|").FindAllStringSubmatch(text,
		-1) {
		documented[row[1]] = true
	}
	if len(documented) < len(dimensions)/2 {
		t.Fatalf("docs/configuration.md has %d variables", len(documented))
	}
	for name := range documented {
		if is := slices.ContainsFunc(dimensions,
			func(dim dimension) bool { return dim.name == name }); is == (otherVariables[name] != "") {
			t.Errorf("%s: want a dimension, or the reason why it is none in otherVariables", name)
		}
	}
	for _, dim := range dimensions {
		if isVariable(dim.name) && !documented[dim.name] {
			t.Errorf("%s is a dimension, and is not in docs/configuration.md", dim.name)
		}
	}
	for name := range otherVariables {
		if !documented[name] {
			t.Errorf("%s has a reason, and is not in docs/configuration.md", name)
		}
	}
}

func isVariable(name string) bool { return strings.HasPrefix(name, "IDEMSK_") }
