package adapters_test

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/test/adapters"
)

// The steps of a payment, as the beginnings of their statements.
const (
	theCall  = "the bank's answer"
	theRow   = "INSERT INTO payments"
	theEvent = "INSERT INTO outbox"
)

// after calls a function after a step.
type after struct {
	step string
	call func(context.Context)
}

type statement struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (a after) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, statement{}, q.SQL)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (a after) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if sql, _ := ctx.Value(statement{}).(string); strings.HasPrefix(strings.ReplaceAll(sql, `"`, ""), a.step) {
		a.call(ctx)
	}
}

// RoundTrip implements http.RoundTripper for the bank's client.
func (a after) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if a.step == theCall {
		a.call(r.Context())
	}
	return response, err
}

// newPayments returns a processor whose handler is Bank.Pay, with keys in the database at a URL.
func newPayments(bankURL, databaseURL string, tracer pgx.QueryTracer) (*kafka.Processor, *pgxpool.Pool,
	error) {
	pool, err := pgstore.NewPool(databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	if err != nil {
		return nil, nil, err
	}
	keys, err := pgstore.New(pool, pgstore.Config{MaxClockSkew: -1})
	if err != nil {
		return nil, nil, err
	}
	engine, err := idem.New(keys, idem.Config{Lease: lease, RetryDelay: -1})
	if err != nil {
		return nil, nil, err
	}
	p, err := newProcessor(engine, adapters.Bank{URL: bankURL}.Pay, &letters{})
	return p, pool, err
}

// dyingPayments handles a payment, and dies after a step. The variable of the topic has both, STEP/ID.
func dyingPayments() error {
	step, id, _ := strings.Cut(os.Getenv(topicVariable), "/")
	dies := after{step, func(ctx context.Context) { _, _ = die(ctx) }}
	http.DefaultClient.Transport = dies
	p, _, err := newPayments(os.Getenv(brokerVariable), os.Getenv(storeVariable), dies)
	if err != nil {
		return err
	}
	p.Run(context.Background(), "cluster", [][]kafka.Record{{paymentRecord(id)}})
	return nil
}

func paymentRecord(id string) kafka.Record {
	return kafka.Record{Topic: topic, Offset: 7, Key: []byte(id), Value: []byte(`{"paymentId":"` + id + `"}`),
		Headers: []kafka.Header{{Key: kafka.DefaultKeyHeader, Value: []byte(id)}}}
}
