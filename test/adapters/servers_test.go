//go:build rest

package adapters_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/kafkatest"
)

// The clients of Kafka on a real broker.
func TestOnApacheKafka(t *testing.T) {
	server := testkit.Run(t, serverproc.StartScript, serverproc.Kafka)
	for name, run := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafkatest.CreateTopic(t, server.Addr(), "payments-"+name, partitions, nil)
			testKafka(t, name, run, server.Addr(), "payments-"+name)
		})
	}
}

func TestRabbitMQ(t *testing.T) {
	broker := testkit.Run(t, serverproc.StartScript, serverproc.RabbitMQ).Addr()
	url := startStore(t)
	connection, channel, err := openQueue(broker)
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, connection)
	send := func(id, body string) {
		if err := channel.PublishWithContext(t.Context(), "", topic, false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	send("dies", "5")
	processDies(t, "rabbitmq", url, broker, "")
	l := newLedger()
	l.failing["fails once"] = []error{errors.New("the bank is closed")}
	l.failing["fails"] = slices.Repeat([]error{idem.Permanent(errors.New("no such account"))}, 9)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var consumers sync.WaitGroup
	for range 2 {
		consumers.Go(func() {
			err := consumeQueue(ctx, broker, mustEngine(t, url), func(ctx context.Context, d amqp.Delivery) ([]byte, error) {
				return l.book(ctx, d.MessageId)
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the consumer ended: %v", err)
			}
		})
	}
	until(t, "both consumers take turns", func() bool {
		queue, err := channel.QueueDeclarePassive(topic, true, false, false, false, nil)
		return err == nil && queue.Consumers == 2
	})
	for _, id := range []string{"twice", "fails once", "twice", "fails", "", "twice"} {
		send(id, "5")
	}
	until(t, "all payments are booked", func() bool { return l.has("dies") && l.has("twice") && l.has("fails once") })
	send("twice", "6") // another request
	var letters []string
	until(t, "all dead letters are there", func() bool {
		if letter, ok, err := channel.Get(dead, true); err != nil {
			t.Fatal(err)
		} else if ok {
			letters = append(letters, letter.MessageId+" "+string(letter.Body))
		}
		return len(letters) == 3
	})
	slices.Sort(letters)
	if want := []string{" 5", "fails 5", "twice 6"}; !slices.Equal(letters, want) {
		t.Errorf("the dead letters are %q; want %q", letters, want)
	}
	stop()
	consumers.Wait()
	if message, ok, err := channel.Get(topic, false); err != nil || ok {
		t.Errorf("%v; a message was not acknowledged: %s", err, message.MessageId)
	}
	l.want(t, map[string]int{"dies": 2, "twice": 1, "fails once": 2})
}
