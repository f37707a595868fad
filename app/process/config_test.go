package process

import (
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// vars reads from a map, with what is required unless the map says otherwise.
func vars(env map[string]string) *app.Vars {
	return app.NewVars(func(name string) (string, bool) {
		if s, ok := env[name]; ok {
			return s, ok
		}
		s, ok := map[string]string{"IDEMSK_KAFKA_BROKERS": "b:1", "IDEMSK_KAFKA_TOPICS": "payments",
			"IDEMSK_KAFKA_GROUP": "ledger"}[name]
		return s, ok
	})
}

// variable is one environment variable, with the values of its settings and with invalid ones. The value ""
// is the default.
type variable struct {
	name    string
	get     func(c Config) any
	valid   map[string]any
	invalid []string
}

func variables() []variable {
	return []variable{
		{"IDEMSK_KAFKA_BROKERS", func(c Config) any { return c.Consumer.Brokers },
			map[string]any{"b:1": []string{"b:1"}, "a:1, b:2": []string{"a:1", "b:2"}}, []string{"b"}},
		{"IDEMSK_KAFKA_TOPICS", func(c Config) any { return c.Consumer.Topics },
			map[string]any{"a": []string{"a"}, "a, b,": []string{"a", "b"}}, []string{","}},
		{"IDEMSK_KAFKA_GROUP", func(c Config) any {
			return c.Consumer.Group + " " + c.Records.Namespace + " " + c.Records.Function
		}, map[string]any{"g": "g g g"}, nil},
		{"IDEMSK_NAMESPACE", func(c Config) any { return c.Records.Namespace },
			map[string]any{"": "ledger", "n": "n"}, []string{"a#b"}},
		{"IDEMSK_KAFKA_INSTANCE_ID", func(c Config) any { return c.Consumer.InstanceID },
			map[string]any{"": "", "i-1": "i-1"}, nil},
		{"IDEMSK_KAFKA_PROTOCOL", func(c Config) any { return c.Consumer.Protocol },
			map[string]any{"": consumer.Classic, "classic": consumer.Classic,
				"consumer": consumer.Incremental}, []string{"848"}},
		{"IDEMSK_KAFKA_RESET", func(c Config) any { return c.Consumer.Reset },
			map[string]any{"": consumer.Earliest, "earliest": consumer.Earliest,
				"fail": consumer.Fail}, []string{"none", "latest"}},
		{"IDEMSK_ORDER", func(c Config) any { return c.Records.Order },
			map[string]any{"": kafka.ByKey, "key": kafka.ByKey, "partition": kafka.ByPartition,
				"none": kafka.Unordered}, []string{"topic"}},
		{"IDEMSK_KAFKA_SESSION_TIMEOUT", func(c Config) any { return c.Consumer.SessionTimeout },
			map[string]any{"": 45 * time.Second, "1s": time.Second}, []string{"999ms", "31m"}},
		{"IDEMSK_COMMIT_INTERVAL", func(c Config) any { return c.Consumer.CommitInterval },
			map[string]any{"": 5 * time.Second, "1ms": time.Millisecond, "1m": time.Minute},
			[]string{"0", "61s"}},
		{"IDEMSK_DRAIN_TIMEOUT", func(c Config) any { return [2]time.Duration{c.Consumer.DrainTimeout, c.Consumer.RevokeTimeout} },
			map[string]any{"": [2]time.Duration{20 * time.Second, 10 * time.Second}, "20m": [2]time.Duration{20 * time.Minute, 10 * time.Minute}},
			[]string{"0s", "21m"}},
		{"IDEMSK_MAX_BYTES", func(c Config) any { return c.Consumer.MaxBytes },
			map[string]any{"": int64(64 << 20), "4096": int64(4 << 10)}, []string{"4095", "1GB"}},
		{"IDEMSK_HTTP_ADDR", func(c Config) any { return c.HTTPAddr },
			map[string]any{"": "", ":8080": ":8080", "127.0.0.1:0": "127.0.0.1:0"},
			[]string{"8080", "localhost"}},
		{"IDEMSK_LOG_LEVEL", func(c Config) any { return c.LogLevel },
			map[string]any{"": slog.LevelInfo, "DEBUG": slog.LevelDebug}, []string{"LOUD"}},
	}
}

func TestEveryVariable(t *testing.T) {
	for _, v := range variables() {
		for value, want := range v.valid {
			vs := vars(map[string]string{v.name: value})
			if got := v.get(ReadConfig(vs)); vs.Err() != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s=%s gives %v, %v; want %v", v.name, value, got, vs.Err(), want)
			}
		}
		for _, value := range v.invalid {
			vs := vars(map[string]string{v.name: value})
			ReadConfig(vs)
			if err := vs.Err(); err == nil || strings.Contains(err.Error(), "\n") ||
				!strings.HasPrefix(err.Error(), v.name+` is "`+value) {
				t.Errorf("%s=%s: %v; want one error that names it", v.name, value, err)
			}
		}
	}
}

func TestStaticMemberThatLeaves(t *testing.T) {
	for name, tc := range map[string]struct {
		env   map[string]string
		wrong bool
	}{
		"static":  {map[string]string{"IDEMSK_KAFKA_INSTANCE_ID": "i"}, false},
		"dynamic": {map[string]string{}, true},
		"incremental": {map[string]string{"IDEMSK_KAFKA_INSTANCE_ID": "i",
			"IDEMSK_KAFKA_PROTOCOL": "consumer"}, true},
	} {
		tc.env["IDEMSK_KAFKA_LEAVE"] = "true"
		v := vars(tc.env)
		cfg := ReadConfig(v)
		if err := v.Err(); !cfg.Consumer.LeaveGroup || (err != nil) != tc.wrong || tc.wrong &&
			!strings.Contains(err.Error(), "IDEMSK_KAFKA_LEAVE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that lacks everything names everything at once.
func TestMissingVariablesAreNamedTogether(t *testing.T) {
	err := Run(t.Context(), app.Handler(nil), app.NewVars(func(string) (string, bool) { return "", false }),
		t.Output())
	for _, name := range []string{"IDEMSK_KAFKA_BROKERS", "IDEMSK_KAFKA_TOPICS", "IDEMSK_KAFKA_GROUP",
		"IDEMSK_NAMESPACE"} {
		if err == nil || !strings.Contains(err.Error(), name+` is "": want `) {
			t.Errorf("error %v; want one that names %s", err, name)
		}
	}
}

// docs/configuration.md documents every variable that a process reads, and its section on processes no other.
func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(IDEMSK_[A-Z_]+)`(?:, `(IDEMSK_[A-Z_]+)`)*")
	documented := func(text string) (names []string) {
		for _, m := range row.FindAllString(text, -1) {
			names = append(names, regexp.MustCompile("IDEMSK_[A-Z_]+").FindAllString(m, -1)...)
		}
		return names
	}
	everywhere, read := documented(string(page)), readVariables()
	for _, name := range read {
		if !slices.Contains(everywhere, name) {
			t.Errorf("docs/configuration.md does not document %s", name)
		}
	}
	_, section, _ := strings.Cut(string(page), "## The consumer process")
	section, _, _ = strings.Cut(section, "\n## ")
	own := documented(section)
	for _, name := range own {
		if !slices.Contains(read, name) {
			t.Errorf("docs/configuration.md documents %s for processes, which do not read it", name)
		}
	}
	if len(own) == 0 {
		t.Error("docs/configuration.md has no variables of processes")
	}
}

// readVariables returns the names of the variables that ReadConfig reads.
func readVariables() (names []string) {
	ReadConfig(app.NewVars(func(name string) (string, bool) {
		if strings.HasPrefix(name, "IDEMSK_") {
			names = append(names, name)
		}
		return "", false
	}))
	return names
}
