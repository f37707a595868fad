package deadletters_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/app"
	function "github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/app/topic"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// environment returns the variables of a consumer in memory with the topic of dead letters.
func environment(brokers []string, more map[string]string) *app.Vars {
	env := map[string]string{
		"IDEMSK_STORE": "memory", "IDEMSK_DEAD_LETTER_TOPIC": letters,
		"IDEMSK_KAFKA_BROKERS": strings.Join(brokers, ","), "IDEMSK_KEY": "key",
	}
	return app.NewVars(func(name string) (string, bool) {
		if s, ok := more[name]; ok {
			return s, true
		}
		s, ok := env[name]
		return s, ok
	})
}

func refuse(context.Context, kafka.Record) ([]byte, error) {
	return nil, idem.Permanent(errors.New("no such account"))
}

// wantLetter wants the letter of the record payments-0@0 in the topic.
func wantLetter(t *testing.T, brokers []string, of string) {
	t.Helper()
	l := readLetters(t, brokers, 1)[0]
	if l.Source() != "payments-0@0" || string(l.Key) != "acc-1" || string(l.Value) != "v" ||
		l.Function != of || l.Error.Message != "no such account" {
		t.Errorf("the letter is %+v", l)
	}
}

func TestFunctionSendsItsLettersToATopic(t *testing.T) {
	brokers := newCluster(t).ListenAddrs()
	vars := environment(brokers, map[string]string{"AWS_LAMBDA_FUNCTION_NAME": "pay"})
	f, err := function.New(t.Context(), app.Handler(kafka.HandlerFunc(refuse)), vars, t.Output(), t.Output(),
		topic.DeadLetters())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	event := fmt.Sprintf(`{"records":{"payments-0":[{"topic":"payments","partition":0,"offset":0,"key":%q,"value":%q}]}}`, text("acc-1"), text("v"))
	if _, err := f.Invoke(t.Context(), []byte(event)); err != nil {
		t.Fatal(err)
	}
	wantLetter(t, brokers, "pay")
}

func TestProcessSendsItsLettersToATopic(t *testing.T) {
	brokers := newCluster(t, kfake.SeedTopics(1, "payments")).ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "payments", Key: []byte("acc-1"), Value: []byte("v")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	vars := environment(brokers, map[string]string{"IDEMSK_KAFKA_TOPICS": "payments",
		"IDEMSK_KAFKA_GROUP": "ledger"})
	go func() { done <- process.Run(ctx, app.Handler(kafka.HandlerFunc(refuse)), vars, t.Output()) }()
	wantLetter(t, brokers, "ledger")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The errors of variables that the consumer and its dead letters read are reported once.
func TestProcessReportsAnErrorOnce(t *testing.T) {
	vars := environment(nil, map[string]string{"IDEMSK_KAFKA_TOPICS": "payments",
		"IDEMSK_KAFKA_GROUP": "ledger"})
	err := process.Run(t.Context(), app.Handler(kafka.HandlerFunc(refuse)), vars, t.Output())
	if err == nil || strings.Count(err.Error(), "IDEMSK_KAFKA_BROKERS is") != 1 {
		t.Errorf("error %v; want one of IDEMSK_KAFKA_BROKERS", err)
	}
}
