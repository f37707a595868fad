package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

const (
	ledgerTable = "idemsk-ledger"
	attrAccount = "account"
	attrBalance = "balance"
)

// On DynamoDB, in this process: the same.
func TestEachCreditIsCountedOnceOnDynamoDB(t *testing.T) {
	for name, claimOnCommit := range map[string]bool{"claims first": false, "claims on commit": true} {
		t.Run(name, func(t *testing.T) { creditOnDynamoDB(t, idem.Config{ClaimOnCommit: claimOnCommit}) })
	}
}

func creditOnDynamoDB(t *testing.T, cfg idem.Config) {
	t.Helper()
	const n = 2000
	db := startDynamo(t)
	box, err := dynamooutbox.New(dynamooutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	brokers := startFakeKafka(t)
	made := producePayments(t, brokers, n)

	first := newSource(t, brokers, payments, enlister(t, db, box, cfg))
	tally := newBooks()
	second := newSource(t, brokers, credited, tally.consumer(t))
	booked, counted := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer close(booked)
		first.deliver(func() bool { return first.records >= n })
	}()
	go func() { counted <- second.deliver(func() bool { return tally.len() >= n }) }()
	s := &stream{T: t, db: db, box: box, brokers: brokers, seen: make(map[string]bool)}
	s.relayAll(booked)
	if !<-counted {
		t.FailNow()
	}

	t.Logf("%d relays died at work; %d batches of payments and %d of events came again, %d records of %d events", s.died, first.again, second.again, second.records, n)
	if s.died < 5 {
		t.Errorf("only %d relays died", s.died)
	}
	if len(s.items) != n {
		t.Errorf("%d events were published of %d payments", len(s.items), n)
	}
	tally.verify(t, made, balances(t, db))
}

// startDynamo starts an in-process DynamoDB with its tables, and returns a client. It has no sort keys: the IDs of the outbox's
// items, which are unique, are the partition key.
func startDynamo(t *testing.T) *dynamodb.Client {
	t.Helper()
	srv, err := dynamofake.New(dynamofake.Config{})
	if err == nil {
		err = srv.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	for table, key := range map[string]string{dynamooutbox.DefaultTable: dynamooutbox.AttrID, ledgerTable: attrAccount} {
		if err := srv.CreateTable(dynamofake.Table{Name: table, HashKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	db := dynamostore.NewClient(aws.Config{
		Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), HTTPClient: &http.Client{Transport: transport},
	}, func(o *dynamodb.Options) { o.BaseEndpoint = aws.String(srv.URL()) })
	if err := dynamostore.CreateTable(t.Context(), db, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	return db
}

func startFakeKafka(t *testing.T) (brokers []string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, payments), kfake.SeedTopics(3, credited),
		kfake.ListenFn(func(_, _ string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// enlister returns the first consumer. It books as the example function does.
func enlister(t *testing.T, db *dynamodb.Client, box *dynamooutbox.Outbox, cfg idem.Config) *msk.Consumer {
	t.Helper()
	store, err := dynamostore.New(db, dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return newConsumer(t, store, cfg, paymentKey(t), dynamooutbox.Handler(box, msk.JSON(func(ctx context.Context, p payment, _ msk.Record) (struct{}, error) {
		tx, err := dynamostore.TxFrom(ctx)
		if err != nil {
			return struct{}{}, err
		}
		err = tx.Enlist(dynamostore.Write{Update: &types.Update{
			TableName: aws.String(ledgerTable), Key: map[string]types.AttributeValue{attrAccount: &types.AttributeValueMemberS{Value: p.ledgerID()}},
			UpdateExpression: aws.String("ADD #balance :amount"), ExpressionAttributeNames: map[string]string{"#balance": attrBalance},
			ExpressionAttributeValues: map[string]types.AttributeValue{":amount": &types.AttributeValueMemberN{Value: strconv.FormatInt(p.Amount, 10)}},
		}})
		if err != nil {
			return struct{}{}, err
		}
		e, err := p.event()
		if err != nil {
			return struct{}{}, err
		}
		if err := outbox.Publish(ctx, e); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, mayFail()
	})))
}

// stream stands for the table's stream and its event source: it hands items to relays, those of an aggregate in order, and a
// batch again whose relay has died, or, now and then, one that was sent long ago.
type stream struct {
	*testing.T
	db      *dynamodb.Client
	box     *dynamooutbox.Outbox
	brokers []string
	items   []dynamooutbox.Item // what has been seen, in this order
	seen    map[string]bool     // by ID
	died    int
}

// relayAll relays until nothing more is booked, and all is relayed.
func (s *stream) relayAll(booked <-chan struct{}) {
	const batch = 40
	for at, over := 0, false; ; {
		select {
		case <-booked:
			over = true
		default:
		}
		s.poll()
		if over && at == len(s.items) {
			return
		}
		for at < len(s.items) && s.Context().Err() == nil {
			next := s.items[at:min(at+batch, len(s.items))]
			if s.relay(next) {
				at += len(next)
			}
			if from := rand.IntN(at + 1); at > 0 && rand.IntN(5) == 0 {
				s.relay(s.items[from:min(from+batch, at)])
			}
		}
		if err := s.Context().Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// poll looks what is new in the table. The order of IDs is that of the commits here, as an account's payments are handled one
// after the other; and none is seen without those before it, as the table fits a page of the scan, 1 MB.
func (s *stream) poll() {
	s.Helper()
	seen := len(s.items)
	for item, err := range s.box.List(s.Context(), s.db, dynamooutbox.ListQuery{}) {
		if err != nil {
			s.Fatal(err)
		}
		if !s.seen[item.ID] {
			s.seen[item.ID] = true
			s.items = append(s.items, item)
		}
	}
	slices.SortFunc(s.items[seen:], func(a, b dynamooutbox.Item) int { return strings.Compare(a.ID, b.ID) })
}

// relay has a new relay send items, and reports whether it lived to the end.
func (s *stream) relay(items []dynamooutbox.Item) bool {
	s.Helper()
	producer, err := relay.New(relay.Config{Options: []kgo.Opt{kgo.SeedBrokers(s.brokers...)}})
	if err != nil {
		s.Fatal(err)
	}
	defer producer.Close()
	sender := &mortal{Producer: producer, dies: rand.IntN(3) == 0}
	r, err := dynamooutbox.NewRelay(s.box, s.db, sender, dynamooutbox.RelayConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Fatal(err)
	}
	result := r.Send(s.Context(), slices.Clone(items))
	if sender.dies {
		s.died++
		return false
	}
	if err := errors.Join(result.Errs...); err != nil || result.Published != len(items) {
		s.Fatal(fmt.Errorf("%d of %d items were published: %w", result.Published, len(items), err))
	}
	return true
}

var errDied = errors.New("the relay has died")

// mortal sends as a relay does that dies: some of the first events, or all, are published, and nobody hears of it.
type mortal struct {
	*relay.Producer
	dies bool
}

// Send implements dynamooutbox.Sender.
func (m *mortal) Send(ctx context.Context, events []outbox.Event) []error {
	if !m.dies {
		return m.Producer.Send(ctx, events)
	}
	_ = m.Producer.Send(ctx, events[:rand.IntN(len(events)+1)])
	errs := make([]error, len(events))
	for i := range errs {
		errs[i] = errDied
	}
	return errs
}

// balances reads the ledger.
func balances(t *testing.T, db *dynamodb.Client) map[string]int64 {
	t.Helper()
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(ledgerTable), ConsistentRead: aws.Bool(true)})
	if err != nil || len(out.LastEvaluatedKey) > 0 {
		t.Fatal("the ledger is not on one page, or: ", err)
	}
	all := make(map[string]int64)
	for _, item := range out.Items {
		account, _ := item[attrAccount].(*types.AttributeValueMemberS)
		balance, _ := item[attrBalance].(*types.AttributeValueMemberN)
		if account == nil || balance == nil {
			t.Fatalf("%v is in the ledger", item)
		}
		if all[account.Value], err = strconv.ParseInt(balance.Value, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
