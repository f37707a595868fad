package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
)

func newConsumer(t *testing.T, cfg Config) (*Consumer, error) {
	t.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return New(engine, kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }), cfg)
}

func valid() Config {
	return Config{Brokers: []string{"b:1"}, Topics: []string{"payments"}, Group: "ledger"}
}

func TestDefaults(t *testing.T) {
	cfg := valid().withDefaults()
	if r := cfg.Records; r.Order != kafka.ByKey || r.Namespace != "ledger" || r.Function != "ledger" ||
		r.Logger == nil || cfg.Cluster != "b:1" {
		t.Errorf("%+v", cfg)
	}
	own := valid()
	own.Records = kafka.Config{Order: kafka.ByPartition, Namespace: "n", Function: "f"}
	if r := own.withDefaults().Records; r.Order != kafka.ByPartition || r.Namespace != "n" ||
		r.Function != "f" {
		t.Errorf("%+v: what is set is replaced", r)
	}
}

// Every invalid field is named at once, before anything connects.
func TestInvalidConfigurationIsRefused(t *testing.T) {
	_, err := newConsumer(t, Config{
		Brokers: []string{""}, Protocol: 9, Reset: 9, LeaveGroup: true, CommitInterval: -1,
		RevokeTimeout: -time.Second, DrainTimeout: -1, StartTimeout: -1,
		MaxBytes: -1,
	})
	if !errors.Is(err, idem.ErrInvalidConfig) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{
		"Brokers is", "Topics is", "Group is empty", "Protocol is 9", "Reset is 9", "LeaveGroup is set",
		"CommitInterval is", "RevokeTimeout is", "DrainTimeout is",
		"StartTimeout is", "MaxBytes is -1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	for name, change := range map[string]func(*Config){
		"options": func(cfg *Config) { cfg.Options = []kgo.Opt{kgo.ShareGroup("ledger")} },
		"records": func(cfg *Config) { cfg.Records.Namespace = "a#b" },
	} {
		cfg := valid()
		change(&cfg)
		if _, err := newConsumer(t, cfg); !errors.Is(err, idem.ErrInvalidConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A record has all that Kafka has of it. Null and empty keys and values differ.
func TestRecordIsConvertedCompletely(t *testing.T) {
	at := time.UnixMilli(1_767_225_600_123)
	got := record(&kgo.Record{Topic: "t", Partition: 3, Offset: 9, Timestamp: at, Key: []byte{},
		Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "a", Value: []byte("b")}}})
	if got.Source() != "t-3@9" || !got.Timestamp.Equal(at) || got.Timestamp.Location() != time.UTC ||
		got.TimestampType != "CREATE_TIME" ||
		got.Key == nil || got.Value != nil || !got.Tombstone() || len(got.Headers) != 2 ||
		got.Headers[0].Value != nil || string(got.Headers[1].Value) != "b" {
		t.Errorf("%+v", got)
	}
	if none := record(&kgo.Record{Timestamp: time.UnixMilli(-1)}); !none.Timestamp.IsZero() {
		t.Errorf("timestamp %v; want none", none.Timestamp)
	}
}
