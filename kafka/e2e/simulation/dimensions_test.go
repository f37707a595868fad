package simulation_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dimension is a variable of docs/configuration.md, with the values of which a seed picks one.
type dimension struct {
	variable string
	values   []string // a value occurs as often as it stands here
	shared   bool     // it is the same in both deployments, because a change forgets keys, or makes two requests of one
	set      string   // instead of values: how the simulation sets it
	not      string   // instead of values: why it is not simulated
}

const otherStore = "the store is dynamostore: other stores have tortures of their own"

// dimensions are all variables that functions and processes have in common, and those of functions.
var dimensions = []dimension{
	{variable: "IDEMSK_KEY_SCOPE", values: []string{"topic", "topic", "namespace"}, shared: true},
	{variable: "IDEMSK_FINGERPRINT", values: []string{"value", "value", "value", "none"}, shared: true},
	{variable: "IDEMSK_ORDER", values: []string{"partition", "partition", "key", "key", "none"}, shared: true},
	{variable: "IDEMSK_FAILURES", values: []string{"batch", "partial"}},
	{variable: "IDEMSK_BATCHING", values: []string{"on", "on", "off"}},
	{variable: "IDEMSK_CONCURRENCY", values: []string{"1", "2", "3", "4", "5", "6", "7", "8"}},
	{variable: "IDEMSK_COMMIT_WINDOW", values: []string{"1", "4", "256"}},
	{variable: "IDEMSK_WAIT", values: []string{"deadline", "0", "700ms"}},
	{variable: "IDEMSK_MAX_RESULT", values: []string{"4096", "4096", "0"}},
	{variable: "IDEMSK_DEADLINE_MARGIN", values: []string{"500ms", "500ms", "3s"}},
	// Short, because payments may need all of their attempts, and the source delivers a waiting one again and again.
	{variable: "IDEMSK_RETRY_DELAY", values: []string{"0s", "0s", "5ms"}},
	{variable: "IDEMSK_OUTAGE_FAILURES", values: []string{"off", "2", "5"}},
	{variable: "IDEMSK_OUTAGE_LIMIT", values: []string{"1m", "5m"}}, // payments that never succeed look like an outage

	{variable: "IDEMSK_STORE", set: "dynamodb"},
	{variable: "IDEMSK_TABLE", set: "the table of the seed"},
	{variable: "IDEMSK_NAMESPACE", set: "the name of the function, as by default"},
	{variable: "IDEMSK_LEASE", set: "settings.lease"},
	{variable: "IDEMSK_MAX_CLOCK_SKEW", set: "skew; settings.beyondSkew lets clocks differ by more"},
	{variable: "IDEMSK_MAX_ATTEMPTS", set: "maxAttempts"},
	{variable: "IDEMSK_RETENTION", set: "the default, after which time to live deletes all entries at the end"},
	{variable: "IDEMSK_CLAIM", set: "settings.claimRange"},
	{variable: "IDEMSK_DEAD_LETTER_TOPIC", set: "a queue in its place: process.options"},

	{variable: "IDEMSK_KEY", not: "the sources of keys are pure functions, tested by package kafka"},
	{variable: "IDEMSK_HASH_KEYS", not: "the names of faults are read from the requests, which would not have the keys"},
	{variable: "IDEMSK_MISSING_KEY", not: "a record without a key is a payment without a name; package kafka tests it"},
	{variable: "IDEMSK_STORE_DOWN", not: "open gives up the invariants while the store is down; package idem tests the policy"},
	{variable: "IDEMSK_STORE_URL", not: otherStore},
	{variable: "IDEMSK_STORE_SECRET_ARN", not: otherStore},
	{variable: "IDEMSK_DEAD_LETTER_QUEUE_URL", not: "the queue has the virtual network: process.options"},
	{variable: "IDEMSK_DEAD_LETTER_MAX_BYTES", not: "payments are small; package sqsdlq tests the limit"},
	{variable: "IDEMSK_DEAD_LETTER_BUCKET", not: "payments are small; package s3spill tests it"},
	{variable: "IDEMSK_LOG_LEVEL", not: "it changes no behaviour"},
}

// draw returns the values of the dimensions for a deployment.
func draw(d dice, deployment int) map[string]string {
	env := make(map[string]string, len(dimensions))
	for _, dim := range dimensions {
		if dim.values == nil {
			continue
		}
		name := "deployment " + strconv.Itoa(deployment) + " "
		if dim.shared {
			name = ""
		}
		env[dim.variable] = pick(d, name+dim.variable, dim.values...)
	}
	return env
}

// Each variable that functions read is a dimension of the simulation, or there is a reason why not.
func TestEachVariableIsADimension(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	common, _, _ := strings.Cut(string(page), "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(IDEMSK_[A-Z_]+)` \\|").FindAllStringSubmatch(common, -1)
	var documented []string
	for _, row := range rows {
		documented = append(documented, row[1])
	}
	if len(documented) < len(dimensions)/2 {
		t.Fatalf("docs/configuration.md has %d variables", len(documented))
	}
	for _, name := range documented {
		if !slices.ContainsFunc(dimensions, func(dim dimension) bool { return dim.variable == name }) {
			t.Errorf("%s is no dimension of the simulation: give it values, or say why it is not simulated", name)
		}
	}
	for _, dim := range dimensions {
		if !slices.Contains(documented, dim.variable) {
			t.Errorf("%s is a dimension, and is not in docs/configuration.md", dim.variable)
		}
		if (dim.values != nil) == (dim.set+dim.not != "") {
			t.Errorf("%s: want values, or how it is set, or a reason", dim.variable)
		}
	}
}
