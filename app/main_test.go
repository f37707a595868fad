package app

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nameVariable names the consumer of a test.
const nameVariable = "NAME"

// vars reads from a map instead of the environment, with the name ledger unless the map says otherwise.
func vars(env map[string]string) *Vars {
	return NewVars(func(name string) (string, bool) {
		s, ok := env[name]
		if !ok && name == nameVariable {
			return "ledger", true
		}
		return s, ok
	})
}

// readConfig reads the configuration of a program with a client of Kafka.
func readConfig(v *Vars) Config {
	return ReadConfig(v, defaults(v), WithDeadLetterTopic(DeadLetterTopic{Read: func(*Vars) {}}))
}

func defaults(v *Vars) Defaults {
	return Defaults{Name: v.String(nameVariable, ""), NameVariable: nameVariable, Order: kafka.ByPartition}
}

func returning(result string, err error) kafka.HandlerFunc {
	return func(context.Context, kafka.Record) ([]byte, error) { return []byte(result), err }
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
