package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/kafka"
)

const topicVariable = "IDEMSK_DEAD_LETTER_TOPIC"

// Dead letters have one destination, and a topic needs a client of Kafka.
func TestTopicThatCannotBeUsedIsRefused(t *testing.T) {
	read := 0
	client := WithDeadLetterTopic(DeadLetterTopic{Read: func(
		v *Vars) {
		read++
		v.Fail("IDEMSK_KAFKA_BROKERS", "", "brokers")
	}})
	for name, tc := range map[string]struct {
		env     map[string]string
		options []Option
		want    string // "" is no error
		read    int
	}{
		"a queue too": {map[string]string{topicVariable: "t",
			"IDEMSK_DEAD_LETTER_QUEUE_URL": queueURL}, []Option{client}, "either a topic or a queue", 0},
		"no client": {map[string]string{topicVariable: "t"}, nil, "pass topic.DeadLetters() to Start", 0},
		"no brokers": {map[string]string{topicVariable: "t"}, []Option{client},
			`IDEMSK_KAFKA_BROKERS is "": want brokers`, 1},
		"neither": {nil, []Option{client}, "", 0},
		"a queue, with client": {map[string]string{"IDEMSK_DEAD_LETTER_QUEUE_URL": queueURL},
			[]Option{client}, "", 0},
	} {
		read = 0
		v := vars(tc.env)
		ReadConfig(v, defaults(v), tc.options...)
		err := v.Err()
		if (err == nil) != (tc.want == "") || err != nil &&
			(!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: error %v; want one that says %q", name, err, tc.want)
		}
		equal(t, name+": the client's variables are read", read, tc.read)
	}
}

// The values of dead letters need dead letters, and a client of S3.
func TestBucketThatCannotBeUsedIsRefused(t *testing.T) {
	const name = "IDEMSK_DEAD_LETTER_BUCKET"
	client := WithDeadLetterBucket(DeadLetterBucket{Check: func(v *Vars, name, value string) {
		v.Fail(name, value, "another one")
	}})
	for want, tc := range map[string]struct {
		queue   string
		options []Option
	}{
		"a queue or a topic for the dead letters too": {"", []Option{client}},
		"pass s3.DeadLetterValues() to Start":         {queueURL, nil},
		`IDEMSK_DEAD_LETTER_BUCKET is "b": want anot`: {queueURL, []Option{client}},
	} {
		v := vars(map[string]string{name: "b", "IDEMSK_DEAD_LETTER_QUEUE_URL": tc.queue})
		ReadConfig(v, defaults(v), tc.options...)
		if err := v.Err(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
}

// letters are dead letters that are not sent.
type letters struct{}

func (letters) Send(context.Context, kafka.DeadLetter) error { return nil }

func TestTopicIsOpenedAndClosed(t *testing.T) {
	closed := false
	client := WithDeadLetterTopic(DeadLetterTopic{
		Read: func(*Vars) {},
		Open: func(_ context.Context, b *Base) (kafka.DeadLetters, error) {
			equal(t, "topic", b.Config.DeadLetterTopic, "t")
			b.OnClose(func() { closed = true })
			return letters{}, nil
		},
	})
	v := vars(map[string]string{topicVariable: "t", "IDEMSK_STORE": "memory"})
	base := NewBase(v, ReadConfig(v, defaults(v), client), io.Discard, client)
	parts, err := base.Parts(t.Context(), Handler(returning("", nil)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "dead letters", parts.Records.DeadLetters, kafka.DeadLetters(letters{}))
	base.Close()
	equal(t, "closed", closed, true)
}

// Two parts of a program may read a variable. Its error is reported once.
func TestErrorIsReportedOnce(t *testing.T) {
	v := vars(nil)
	for range 2 {
		v.Fail("A", "x", "y")
		v.FailSecret("B", "z")
	}
	equal(t, "errors", v.Err().Error(), "A is \"x\": want y\nB is missing or wrong: want z")
}

// A program adds a store under a name of its own, and IDEMSK_STORE selects it by this name.
func TestStoreOfAnotherName(t *testing.T) {
	own := WithStore(Store{Name: "cassandra", Read: func(_ *Vars, c *Config) { c.Table = "read" }})
	for name, table := range map[string]string{"cassandra": "read", "dynamodb": dynamostore.DefaultTable} {
		v := vars(map[string]string{"IDEMSK_STORE": name})
		if cfg := ReadConfig(v, defaults(v), own); v.Err() != nil || cfg.Store != name || cfg.Table != table {
			t.Errorf("%s: %+v, %v; want the table %s", name, cfg, v.Err(), table)
		}
	}
	v := vars(map[string]string{"IDEMSK_STORE": "mysql"})
	ReadConfig(v, defaults(v), own, WithStore(Store{Name: StorePostgres}))
	if err := v.Err(); err == nil || !strings.HasSuffix(err.Error(),
		"one of dynamodb, postgres, redis, memory, none, cassandra") {
		t.Errorf("another name: %v; want an error with the names", err)
	}
}

// A schema registry needs decoders, and what is set for one needs the registry. An error has no part of the
// registry's URL, which may have a password.
func TestSchemasThatCannotBeUsedAreRefused(t *testing.T) {
	decoders := WithSchemas(Schemas{Check: func(v *Vars, c *SchemaConfig) {
		v.Fail("IDEMSK_SCHEMA_DECODE", fmt.Sprint(c.Key, c.Value), "less")
	}})
	const registry, arn, decode = "IDEMSK_SCHEMA_REGISTRY", "IDEMSK_SCHEMA_SECRET_ARN", "IDEMSK_SCHEMA_DECODE"
	all := []Option{decoders}
	for want, tc := range map[string]struct {
		env     map[string]string
		options []Option
	}{
		"want a program that decodes":                    {map[string]string{registry: "http://u:hidden@h"}, nil},
		decode + ` is "true true": want less`:            {map[string]string{registry: "r", decode: "key,value"}, all},
		decode + ` is "true false": want less`:           {map[string]string{registry: "r", decode: "key"}, all},
		decode + ` is "value": want the registry too`:    {map[string]string{decode: "value"}, all},
		arn + ` is "arn:": want the registry too`:        {map[string]string{arn: "arn:"}, all},
		decode + ` is "values": want one of none, value`: {map[string]string{decode: "values"}, nil},
	} {
		v := vars(tc.env)
		ReadConfig(v, defaults(v), tc.options...)
		if err := v.Err(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
}

// Decoders are opened only if there is a registry and all variables are valid. The handler then gets
// converted records, and keys are those that the decoders set.
func TestSchemasConvertRecords(t *testing.T) {
	opened := 0
	decoders := WithSchemas(Schemas{
		Check: func(*Vars, *SchemaConfig) {},
		Open: func(_ context.Context, b *Base) (func(context.Context, *kafka.Record) error, error) {
			opened++
			b.Config.Records.Key = kafka.OffsetKey
			if b.Config.Schemas.Registry == "unknown" {
				return nil, errors.New("no such registry")
			}
			return func(_ context.Context, r *kafka.Record) error { r.Value = []byte("{}"); return nil }, nil
		},
	})
	handler := kafka.HandlerFunc(func(_ context.Context, r kafka.Record) ([]byte, error) {
		return r.Value, nil
	})
	for name, tc := range map[string]struct {
		registry, store, says, value string
		opened                       int
	}{
		"none":     {"", "memory", "", "bytes", 0},
		"one":      {"registry", "memory", "", "{}", 1},
		"unknown":  {"unknown", "memory", "no such registry", "", 1},
		"no store": {"registry", "unknown", "IDEMSK_STORE", "", 0},
	} {
		opened = 0
		v := vars(map[string]string{"IDEMSK_SCHEMA_REGISTRY": tc.registry, "IDEMSK_STORE": tc.store})
		base := NewBase(v, ReadConfig(v, defaults(v), decoders), io.Discard, decoders)
		parts, err := base.Parts(t.Context(), Handler(handler))
		equal(t, name+": opened", opened, tc.opened)
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: error %v; want one that says %q", name, err, tc.says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		each, _ := parts.Handler.(kafka.HandlerFunc)
		value, err := each(t.Context(), kafka.Record{Value: []byte("bytes")})
		if err != nil || string(value) != tc.value {
			t.Errorf("%s: the handler got %s, %v; want %s", name, value, err, tc.value)
		}
		key, _ := parts.Records.Key(t.Context(), &kafka.Record{Topic: "t"})
		equal(t, name+": key of the decoders", key == "t-0@0", tc.opened == 1)
		base.Close()
	}
}
