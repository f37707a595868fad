package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

// environment returns Vars with these variables.
func environment(env map[string]string) *Vars {
	v := vars(env)
	v.environ = func() (all []string) {
		for name, value := range env {
			all = append(all, name+"="+value)
		}
		return all
	}
	return v
}

// start builds the parts of a program.
func start(t testing.TB, build Build, v *Vars, stderr io.Writer) error {
	t.Helper()
	base := NewBase(v, readConfig(v), stderr)
	_, err := base.Parts(t.Context(), build)
	base.Close()
	return err
}

// A misspelt name would silently leave the default in force.
func TestUnreadVariableIsNamedAtTheStart(t *testing.T) {
	build := func(_ context.Context, base *Base) (kafka.Handler, error) {
		base.Vars.Table("IDEMSK_LEDGER_TABLE", "ledger")
		return returning("", nil), nil
	}
	var stderr bytes.Buffer
	err := start(t, build, environment(map[string]string{
		"IDEMSK_STORE": "memory", "IDEMSK_DEAD_LETTER_QUEUE_URL": "", "IDEMSK_LEDGER_TABLE": "mine",
		"IDEMSK_RETENTION": "24h",
		"IDEMSK_RETENTON":  "1s", "IDEMSK_LEGDER_TABLE": "yours", "IDEMSK_COLOUR": "red", "IDEMSK_COLOR": "",
		"RETENTION": "1s", "IDMSK_RETENTION": "1s", "IDMESK_MAX_ATEMPTS": "3", "idemsk_key": "key", "IDEA_KEY": "1",
		"IDEAS_COLOUR": "red", "IDEMSK_ATTEMPTS": "3",
	}), &stderr)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(stderr.String()) {
		var fields struct{ Level, Msg, Variable string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields.Variable == "" {
			continue // it is about something else
		}
		equal(t, "level", fields.Level, "WARN")
		equal(t, "the message begins with the name", strings.HasPrefix(fields.Msg, fields.Variable+" is set"),
			true)
		_, meant, _ := strings.Cut(fields.Msg, "misspelt?")
		got = append(got, fields.Variable+meant)
	}
	equal(t, "names", strings.Join(got, ", "),
		"IDEMSK_ATTEMPTS Perhaps IDEMSK_MAX_ATTEMPTS is meant., "+
			"IDEMSK_COLOUR, IDEMSK_LEGDER_TABLE Perhaps IDEMSK_LEDGER_TABLE is meant., "+
			"IDEMSK_RETENTON Perhaps IDEMSK_RETENTION is meant., "+
			"IDMESK_MAX_ATEMPTS Perhaps IDEMSK_MAX_ATTEMPTS is meant., "+
			"IDMSK_RETENTION Perhaps IDEMSK_RETENTION is meant., "+
			"idemsk_key Perhaps IDEMSK_KEY is meant.")
}

// A variable without an effect is named too.
func TestUnusedVariableIsNamed(t *testing.T) {
	var stderr bytes.Buffer
	build := func(ctx context.Context, base *Base) (kafka.Handler, error) {
		base.Vars.WarnUnused(ctx, base.Logger, "nobody uses it", "IDEMSK_ORDER", "IDEMSK_CONCURRENCY")
		return returning("", nil), nil
	}
	err := start(t, build, environment(map[string]string{"IDEMSK_STORE": "memory", "IDEMSK_DEAD_LETTER_QUEUE_URL": "",
		"IDEMSK_ORDER": "key"}), &stderr)
	if err != nil || strings.Count(stderr.String(), "nobody uses it") != 1 ||
		!strings.Contains(stderr.String(), `"msg":"IDEMSK_ORDER is set, but nobody uses it","variable":"IDEMSK_ORDER"`) {
		t.Errorf("error %v, log %q", err, stderr.String())
	}
}

// A missing variable may be set under a misspelt name.
func TestUnreadVariableIsNamedWithOtherErrors(t *testing.T) {
	var stderr bytes.Buffer
	err := start(t, Handler(returning("", nil)),
		environment(map[string]string{"IDEMSK_STORE": "nowhere", "IDEMSK_LAESE": "1s"}), &stderr)
	if err == nil || !strings.Contains(stderr.String(),
		`Perhaps IDEMSK_LEASE is meant.","variable":"IDEMSK_LAESE"`) {
		t.Errorf("error %v, log %q", err, stderr.String())
	}
}

// The variables of a store that the program does not have are not misspelt.
func TestVariablesOfAnInvalidStoreAreNotNamed(t *testing.T) {
	for _, name := range []string{StorePostgres, StoreRedis, StoreDynamoDB, "nowhere"} {
		v := environment(map[string]string{"IDEMSK_STORE": name, "IDEMSK_TABLE": "mine",
			"IDEMSK_STORE_URL": "postgres://u@h/d", "IDEMSK_STORE_SECRET_ARN": "arn"})
		readConfig(v)
		if err, unread := v.Err(), v.Unread(); err == nil || len(unread) > 0 {
			t.Errorf("IDEMSK_STORE=%s: error %v, unread %v; want an error, and none unread", name, err, unread)
		}
	}
}

func TestEnvironmentReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("IDEMSK_LEASE", "7s")
	t.Setenv("IDEMSK_LEAZE", "8s")
	v := Environment()
	equal(t, "IDEMSK_LEASE", v.String("IDEMSK_LEASE", ""), "7s")
	equal(t, "unread", slices.Contains(v.Unread(), Unread{"IDEMSK_LEAZE", "IDEMSK_LEASE"}), true)
}
