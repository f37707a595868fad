package redrive_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/kafka"
)

func TestProduce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	k := dial(t, c)
	l := letter(77)
	tombstone := letter(78)
	tombstone.Key, tombstone.Value = nil, nil
	for i, l := range []*kafka.DeadLetter{&l, &tombstone} {
		if where, err := k.Send(t.Context(), l); err != nil || where != "payments-1@"+strconv.Itoa(i) {
			t.Fatalf("sent to %s, %v", where, err)
		}
	}
	recs := consume(t, c, 1, 2)
	r := recs[0]
	if string(r.Key) != "acc-1" || string(r.Value) != string(l.Value) ||
		time.Since(r.Timestamp) > time.Minute {
		t.Errorf("record %+v; want the letter's key and value, and a timestamp of now", r)
	}
	want := []kgo.RecordHeader{
		{Key: "idempotency-key", Value: []byte("p")}, {Key: "null"},
		{Key: kafka.RedriveHeader, Value: []byte("1700000000123 permanent")},
	}
	if len(r.Headers) != len(want) {
		t.Fatalf("headers %v, want %v", r.Headers, want)
	}
	for i, h := range r.Headers {
		if h.Key != want[i].Key || !bytes.Equal(h.Value, want[i].Value) ||
			(h.Value == nil) != (want[i].Value == nil) {
			t.Errorf("header %d is %v, want %v", i, h, want[i])
		}
	}
	if recs[1].Key != nil || recs[1].Value != nil {
		t.Errorf("the tombstone became %+v", recs[1])
	}
}

func TestLetterWithoutVersionGetsNoHeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := letter(1)
	l.Token = 0
	if _, err := dial(t, c).Send(t.Context(), &l); err != nil {
		t.Fatal(err)
	}
	if h := consume(t, c, 1, 1)[0].Headers; len(h) != 2 {
		t.Errorf("headers %v, want the record's own two", h)
	}
}

func TestOmittedValueIsReadBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	value, at := bytes.Repeat([]byte("x"), 5000), time.UnixMilli(letter(1).Timestamp)
	produce(t, c, &kgo.Record{Topic: "payments", Partition: 1, Value: []byte("before"), Timestamp: at},
		&kgo.Record{Topic: "payments", Partition: 1, Key: []byte("acc-1"), Value: value,
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t")}}, Timestamp: at})
	whole := func() kafka.DeadLetter {
		l := letter(1)
		l.Value, l.ValueOmitted, l.Omitted, l.Headers = nil, len(value), []string{"headers"}, nil
		return l
	}
	l := whole()
	k := dial(t, c)
	src := &listSource{bodies: [][]byte{encode(t, &l)}}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: k, Reader: k})
	if results[0].Outcome != redrive.Redriven || results[0].Where != "payments-1@2" {
		t.Fatalf("%+v", results[0])
	}
	r := consume(t, c, 1, 3)[2]
	if !bytes.Equal(r.Value, value) || len(r.Headers) != 2 || r.Headers[0].Key != "trace" ||
		r.Headers[1].Key != kafka.RedriveHeader {
		t.Errorf("redriven with %d bytes and the headers %v", len(r.Value), r.Headers)
	}
	for name, test := range map[string]struct {
		change func(l *kafka.DeadLetter)
		says   string
	}{
		"another record there": {func(l *kafka.DeadLetter) { l.Offset = 0 }, "another one"},
		"another key":          {func(l *kafka.DeadLetter) { l.Key = []byte("acc-2") }, "another one"},
		"no key":               {func(l *kafka.DeadLetter) { l.Key = nil }, "another one"},
		"another time":         {func(l *kafka.DeadLetter) { l.Timestamp++ }, "another one"},
		"another size":         {func(l *kafka.DeadLetter) { l.ValueOmitted = 4999 }, "another one"},
		"no such partition":    {func(l *kafka.DeadLetter) { l.Partition = 9 }, "payments-9@1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		l := whole()
		test.change(&l)
		if err := k.Fill(ctx, &l); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want %q", name, err, test.says)
		}
		cancel()
	}
	if err := c.DeleteRecords("payments", 1, 2); err != nil {
		t.Fatal(err)
	}
	l = whole()
	if err := k.Fill(t.Context(), &l); err == nil || !strings.Contains(err.Error(), "retention has removed") {
		t.Errorf("a record that is deleted: %v", err)
	}
}

func TestNoSuchTopic(t *testing.T) {
	t.Parallel()
	l := letter(1)
	l.Topic = "missing"
	_, err := dial(t, newCluster(t)).Send(t.Context(), &l)
	if err == nil || !strings.Contains(err.Error(), "no such topic") ||
		!strings.Contains(err.Error(), "missing") {
		t.Errorf("%v; want an error that names the topic", err)
	}
}

// Everything that talks to the cluster authenticates: what produces, and what reads a value back.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"))
	as := func(password string) redrive.Cluster {
		return redrive.Cluster{Brokers: c.ListenAddrs(),
			Options: []kgo.Opt{kgo.SASL(plain.Auth{User: "user", Pass: password}.AsMechanism())}}
	}
	k, err := redrive.Dial(t.Context(), as("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	l := letter(0)
	if _, err := k.Send(t.Context(), &l); err != nil {
		t.Error(err)
	}
	l.Value, l.ValueOmitted, l.Timestamp = nil, len(l.Value), 0 // a redriven record has a time of its own
	if err := k.Fill(t.Context(), &l); err != nil {
		t.Error(err)
	}
	if _, err := redrive.Dial(t.Context(), as("wrong")); err == nil ||
		!strings.Contains(err.Error(), "--auth") {
		t.Errorf("a wrong password: %v", err)
	}
}
