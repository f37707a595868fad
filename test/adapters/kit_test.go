package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// The variables of a process that dies in the handler: which adapter it has, and its servers.
const (
	adapterVariable = "ADAPTER"
	storeVariable   = "ADAPTER_STORE"
	brokerVariable  = "ADAPTER_BROKER"
	topicVariable   = "ADAPTER_TOPIC"
)

func TestMain(m *testing.M) {
	if adapter := os.Getenv(adapterVariable); adapter != "" {
		if err := dying(adapter); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// dying handles a message and dies in its handler.
func dying(adapter string) error {
	if adapter == "payments" {
		return dyingPayments()
	}
	engine, err := newEngine(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	switch adapter {
	case "http":
		dyingHTTP(engine)
	case "watermill":
		return dyingWatermill(engine)
	case "rabbitmq":
		return dyingRabbitMQ(engine)
	}
	if client, ok := clients[adapter]; ok {
		return dyingKafka(engine, client)
	}
	return errors.New("no adapter " + adapter)
}

// die tells the attempt, and kills the process, as a machine does that fails.
func die(ctx context.Context) ([]byte, error) {
	attempt, _ := idem.AttemptFrom(ctx)
	fmt.Println("begun: attempt", attempt.Number)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return nil, err
	}
	select {}
}

// processDies runs a process that dies in the handler. Its key stays claimed.
func processDies(t *testing.T, adapter, storeURL, broker, topic string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	p, err := subprocess.Start([]string{program}, []string{adapterVariable + "=" + adapter,
		storeVariable + "=" + storeURL, brokerVariable + "=" + broker, topicVariable + "=" + topic}, func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, string(line))
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ended():
	case <-time.After(patience):
		p.Signal(syscall.SIGKILL)
		<-p.Ended()
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(said, "begun: attempt 1") {
		t.Fatalf("the process did not die in its handler:\n%s", strings.Join(said, "\n"))
	}
}

const (
	patience = 30 * time.Second // the maximum time that a test waits
	lease    = 4 * time.Second
)

// startStore starts a DynamoDB in this process, which other processes reach, and returns its URL.
func startStore(t *testing.T) string {
	t.Helper()
	server := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	if err := dynamostore.CreateTable(t.Context(), dynamoClient(server.URL()), dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	return server.URL()
}

func dynamoClient(url string) *dynamodb.Client {
	return dynamostore.NewClient(aws.Config{Region: "us-east-1", BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}

func newStore(url string) (*dynamostore.Store, error) {
	return dynamostore.New(dynamoClient(url), dynamostore.Config{MaxClockSkew: -1}) // there is one clock
}

func newEngine(url string) (*idem.Engine, error) {
	keys, err := newStore(url)
	if err != nil {
		return nil, err
	}
	return idem.New(keys, idem.Config{Lease: lease, RetryDelay: 10 * time.Millisecond})
}

func mustEngine(t *testing.T, url string) *idem.Engine {
	t.Helper()
	engine, err := newEngine(url)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// ledger has the effects of a handler.
type ledger struct {
	mu      sync.Mutex
	failing map[string][]error // what the next calls return
	running map[string]bool
	calls   int
	booked  map[string][]idem.Attempt
	wrong   []string
}

func newLedger() *ledger {
	return &ledger{failing: make(map[string][]error), running: make(map[string]bool),
		booked: make(map[string][]idem.Attempt)}
}

// book is the handler of a message with a key.
func (l *ledger) book(ctx context.Context, key string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; l.running[key] {
		l.wrong = append(l.wrong, "two handlers of "+key+" ran at once")
	}
	l.running[key] = true
	l.mu.Unlock()
	<-time.After(20 * time.Millisecond) // another delivery would begin meanwhile
	l.mu.Lock()
	l.running[key] = false
	if errs := l.failing[key]; len(errs) > 0 {
		l.failing[key] = errs[1:]
		return nil, errs[0]
	}
	attempt, ok := idem.AttemptFrom(ctx)
	if !ok {
		l.wrong = append(l.wrong, key+" has no attempt")
	}
	l.booked[key] = append(l.booked[key], attempt)
	return []byte("booked " + key), nil
}

// has reports whether a key was booked.
func (l *ledger) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.booked[key]) > 0
}

// want compares the effects with the number of the attempt that booked each key.
func (l *ledger) want(t *testing.T, attempts map[string]int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.wrong {
		t.Error(w)
	}
	for key, number := range attempts {
		if got := l.booked[key]; len(got) != 1 || got[0].Number != number {
			t.Errorf("%s was booked by the attempts %+v; want it once, by attempt %d", key, got, number)
		}
	}
	if len(l.booked) != len(attempts) {
		t.Errorf("%d keys were booked; want %d", len(l.booked), len(attempts))
	}
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); {
		if time.Since(began) > patience {
			t.Fatalf("waited for %v until %s", patience, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
