package deadletters_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

const (
	timeout = 3 * time.Second
	soon    = 6 * time.Second // above the timeout and an attempt, below what a client waits by default
)

// newProxiedCluster returns a cluster whose broker is behind a proxy.
func newProxiedCluster(t *testing.T) (brokers []string, proxy *faultproxy.Proxy) {
	t.Helper()
	c := newCluster(t, kfake.ListenFn(func(string, string) (l net.Listener, err error) {
		l, proxy = faultproxy.Listen(t)
		return l, nil
	}))
	return c.ListenAddrs(), proxy
}

// send sends a letter and wants an answer soon.
func send(t *testing.T, topic *topicletters.Topic) error {
	t.Helper()
	begun := time.Now()
	err := topic.Send(t.Context(), letter())
	if took := time.Since(begun); took > soon {
		t.Errorf("Send took %v, want at most %v", took, soon)
	}
	return err
}

var faults = map[string]faultproxy.Fault{"refused": faultproxy.Refused, "reset": faultproxy.Reset,
	"silent": faultproxy.Silent}

// The connections fail: letters are sent over new ones, by the same call.
func TestSendContinuesOverNewConnections(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers, proxy := newProxiedCluster(t)
			topic := newTopic(t, brokers)
			for range 3 {
				if err := send(t, topic); err != nil {
					t.Error(err)
				}
				proxy.Existing(fault)
			}
			if n := len(readLetters(t, brokers, 3)); n != 3 {
				t.Errorf("%d letters are in the topic; want 3", n)
			}
		})
	}
}

// The network fails: no letter counts as sent, before the first one and after it. When the network is back,
// letters are sent.
func TestSendFailsWithoutANetwork(t *testing.T) {
	for name, fault := range faults {
		for when, before := range map[string]int{"first letter": 0, "second letter": 1} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				brokers, proxy := newProxiedCluster(t)
				topic := newTopic(t, brokers)
				for range before {
					if err := send(t, topic); err != nil {
						t.Fatal(err)
					}
				}
				proxy.New(fault)
				proxy.Existing(fault)
				if err := send(t, topic); err == nil {
					t.Error("there is no network, and Send returned nil")
				}
				proxy.New(faultproxy.None)
				if err := send(t, topic); err != nil {
					t.Errorf("when the network is back: %v", err)
				}
			})
		}
	}
}

// The letter was written and the acknowledgement is lost: Send sends it again, and the brokers recognise it.
func TestSendRepeatsALetterWhoseAcknowledgementWasLost(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers, proxy := newProxiedCluster(t)
			topic := newTopic(t, brokers)
			if err := send(t, topic); err != nil {
				t.Fatal(err)
			}
			proxy.NextReply(fault)
			for range 2 {
				if err := send(t, topic); err != nil {
					t.Error(err)
				}
			}
			if records := read(t, brokers, 3); len(records) != 3 {
				t.Errorf("%d records are in the topic; want 3", len(records))
			}
		})
	}
}

// A topic can be closed while the network is silent, and while a letter is being sent.
func TestTopicOfASilentNetworkCanBeClosed(t *testing.T) {
	brokers, proxy := newProxiedCluster(t)
	topic := newTopic(t, brokers)
	if err := send(t, topic); err != nil {
		t.Fatal(err)
	}
	proxy.New(faultproxy.Silent)
	proxy.Existing(faultproxy.Silent)
	done := make(chan error)
	go func() { done <- topic.Send(t.Context(), letter()) }()
	begun := time.Now()
	topic.Close()
	if err := <-done; err == nil {
		t.Error("Send returned nil")
	}
	if took := time.Since(begun); took > soon {
		t.Errorf("to close took %v, want at most %v", took, soon)
	}
}

// The context ends while nothing answers: Send returns at once.
func TestSendOfASilentNetworkEndsWithTheContext(t *testing.T) {
	for when, before := range map[string]int{"first letter": 0, "second letter": 1} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			brokers, proxy := newProxiedCluster(t)
			topic := newTopic(t, brokers)
			for range before {
				if err := send(t, topic); err != nil {
					t.Fatal(err)
				}
			}
			proxy.New(faultproxy.Silent)
			proxy.Existing(faultproxy.Silent)
			const limit = 100 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			begun := time.Now()
			err := topic.Send(ctx, letter())
			if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > timeout/2 {
				t.Errorf("%v after %v, want an error after %v", err, took, limit)
			}
		})
	}
}
