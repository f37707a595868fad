package adapters_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/test/adapters"
)

// route starts a Router that handles payments. Routers on one bus get each message at the same time, as if it
// was delivered twice.
func route(ctx context.Context, bus *gochannel.GoChannel, engine *idem.Engine,
	handle func(context.Context, string) ([]byte, error)) error {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router.AddMiddleware(adapters.Watermill(engine, bus, "dead"))
	router.AddHandler("ledger", "payments", bus, "receipts", bus, func(msg *message.Message) ([]*message.Message, error) {
		text, err := handle(msg.Context(), msg.UUID)
		if err != nil {
			return nil, err
		}
		receipt := message.NewMessage(watermill.NewUUID(), text)
		receipt.Metadata.Set("of", msg.UUID)
		return []*message.Message{receipt}, nil
	})
	failed := make(chan error, 1)
	go func() { failed <- router.Run(ctx) }()
	select {
	case <-router.Running():
		return nil
	case err := <-failed:
		return err
	}
}

// inbox has the messages of a topic.
type inbox struct {
	mu       sync.Mutex
	messages []*message.Message
}

func read(t *testing.T, bus *gochannel.GoChannel, topic string) *inbox {
	t.Helper()
	messages, err := bus.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	in := new(inbox)
	go func() {
		for m := range messages {
			in.mu.Lock()
			in.messages = append(in.messages, m)
			in.mu.Unlock()
			m.Ack()
		}
	}()
	return in
}

// of returns the UUIDs of the messages with this metadata, or of all if the name is empty.
func (in *inbox) of(name, value string) (ids []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, m := range in.messages {
		if name == "" || m.Metadata.Get(name) == value {
			ids = append(ids, m.UUID)
		}
	}
	slices.Sort(ids)
	return ids
}

func publish(t *testing.T, bus *gochannel.GoChannel, key, body string) {
	t.Helper()
	if err := bus.Publish("payments", message.NewMessage(key, []byte(body))); err != nil {
		t.Fatal(err)
	}
}

func TestWatermill(t *testing.T) {
	url := startStore(t)
	processDies(t, "watermill", url, "", "")
	bus := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	receipts, dead := read(t, bus, "receipts"), read(t, bus, "dead")
	l := newLedger()
	l.failing["fails once"] = []error{errors.New("the bank is closed")}
	l.failing["fails"] = slices.Repeat([]error{idem.Permanent(errors.New("no such account"))}, 9)
	for range 2 {
		if err := route(t.Context(), bus, mustEngine(t, url), l.book); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"dies", "twice", "fails once", "fails", "twice"} {
		publish(t, bus, key, "5")
	}
	for _, key := range []string{"dies", "twice", "fails once"} {
		until(t, "both deliveries of "+key+" have published", func() bool {
			ids := receipts.of("of", key)
			return len(ids) >= 2 && ids[0] == ids[len(ids)-1]
		})
	}
	until(t, "the message that fails is a dead letter", func() bool {
		return slices.Equal(dead.of("", ""), []string{"fails"})
	})
	publish(t, bus, "twice", "6") // another payload
	publish(t, bus, "", "5")
	until(t, "both routers have refused both messages", func() bool {
		return slices.Equal(dead.of("", ""), []string{"", "", "fails", "twice", "twice"})
	})
	l.want(t, map[string]int{"dies": 2, "twice": 1, "fails once": 2})
}

// dyingWatermill is the process that dies.
func dyingWatermill(engine *idem.Engine) error {
	bus := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	err := route(context.Background(), bus, engine, func(ctx context.Context, _ string) ([]byte, error) {
		return die(ctx)
	})
	if err != nil {
		return err
	}
	if err := bus.Publish("payments", message.NewMessage("dies", []byte("5"))); err != nil {
		return err
	}
	select {}
}
