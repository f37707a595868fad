package esm

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/lambda/msk"
)

// feed is a source of the records in a channel.
type feed struct {
	records chan []*kgo.Record
	err     error
}

func (f *feed) poll(ctx context.Context, most int) ([]*kgo.Record, error) {
	if f.err != nil {
		return nil, f.err
	}
	select {
	case r := <-f.records:
		if len(r) > most {
			panic("more at once than was asked for")
		}
		return r, nil
	case <-ctx.Done():
		return nil, nil
	}
}

func newCollector(c Config, patterns ...string) (*collector, *feed) {
	f := &feed{records: make(chan []*kgo.Record, 100)}
	all := &collector{config: &c, source: f, envelope: mskevent.MSK("arn", "b:1")}
	for _, p := range patterns {
		one, err := parseFilter(p)
		if err != nil {
			panic(err)
		}
		all.filters = append(all.filters, one)
	}
	return all, f
}

func read(partition int32, offset int64, value string) *kgo.Record {
	return &kgo.Record{Topic: "a-topic", Partition: partition, Offset: offset, Value: []byte(value),
		Timestamp: time.UnixMilli(1000)}
}

func TestBatchEndsAtItsSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCollector(Config{BatchSize: 3, MaximumBatchingWindow: time.Hour})
		f.records <- []*kgo.Record{read(0, 1, "a"), read(1, 8, "b")}
		f.records <- []*kgo.Record{read(0, 2, "c")}
		f.records <- []*kgo.Record{read(0, 3, "d")}
		begun := time.Now()
		b, err := c.next(t.Context())
		if err != nil || list(b.records) != "0@1 1@8 0@2" ||
			!reflect.DeepEqual(b.ends, offsets{0: 3, 1: 9}) || time.Since(begun) != 0 {
			t.Errorf("%s, %v after %s, %v", list(b.records), b.ends, time.Since(begun), err)
		}
	})
}

func TestBatchEndsWhenTheWindowOfItsFirstRecordIsOver(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{0, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c, f := newCollector(Config{BatchSize: 10, MaximumBatchingWindow: window})
			go func() {
				time.Sleep(time.Hour) //nolint:forbidigo // in a bubble: the clock is the test's
				f.records <- []*kgo.Record{read(0, 1, "a")}
				time.Sleep(499 * time.Millisecond) //nolint:forbidigo // as above
				f.records <- []*kgo.Record{read(0, 2, "b")}
				time.Sleep(2 * time.Millisecond) //nolint:forbidigo // as above
				f.records <- []*kgo.Record{read(0, 3, "c")}
			}()
			begun := time.Now()
			b, err := c.next(t.Context())
			want := map[time.Duration]string{0: "0@1", 500 * time.Millisecond: "0@1 0@2"}[window]
			if err != nil || list(b.records) != want || time.Since(begun) != time.Hour+window {
				t.Errorf("window %s: %s after %s, %v; want %s", window, list(b.records), time.Since(begun),
					err, want)
			}
			time.Sleep(time.Hour) //nolint:forbidigo // the feed comes to its end
		})
	}
}

func TestFilteredRecordsDoNotCountInTheBatchSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCollector(Config{BatchSize: 2, MaximumBatchingWindow: time.Second},
			`{"value":{"u":["a"]}}`)
		f.records <- []*kgo.Record{read(0, 1, `{"u":"b"}`), read(0, 2, `{"u":"a"}`)}
		f.records <- []*kgo.Record{read(0, 3, `{"u":"b"}`)}
		b, err := c.next(t.Context())
		if err != nil || list(b.records) != "0@2" || b.filtered != 2 || b.ends[0] != 4 {
			t.Errorf("%s, %d filtered, %v, %v", list(b.records), b.filtered, b.ends, err)
		}
	})
}

func TestControlRecordsCountOnlyAsOffsets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCollector(Config{BatchSize: 2})
		control := read(0, 5, "")
		control.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})
		f.records <- []*kgo.Record{control}
		b, err := c.next(t.Context())
		if err != nil || len(b.records) != 0 || b.ends[0] != 6 {
			t.Errorf("%s, %v, %v", list(b.records), b.ends, err)
		}
	})
}

func TestBatchEndsAtTheEncodedSizeOfTheEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCollector(Config{BatchSize: 10, MaximumBatchingWindow: time.Second})
		// 2,000,000 bytes in base64: three are less than 6 MB, four are more
		value := strings.Repeat("x", 1_500_000)
		f.records <- []*kgo.Record{read(0, 4, value), read(1, 5, value), read(0, 6, value), read(1, 7, value)}
		for _, want := range []string{"0@4 1@5 0@6", "1@7"} {
			b, err := c.next(t.Context())
			if err != nil || list(b.records) != want {
				t.Fatalf("%v, %v; want %s", b, err, want)
			}
			if payload := b.payload(b.records); len(payload) > MaxPayload || len(payload) != b.size.Bytes {
				t.Errorf("%d bytes, counted %d, at most %d", len(payload), b.size.Bytes, MaxPayload)
			}
		}
		// A third record, byte by byte: it is added if it fits exactly, and not with one byte more.
		for more, want := range []string{"0@1 0@2", "0@1"} {
			first, second := read(0, 1, "a"), read(0, 2, "b")
			one, two := NewRecord(first), NewRecord(second)
			free := MaxPayload - c.envelope.Size().With(&one.Record).With(&two.Record).Bytes
			second.Headers = []kgo.RecordHeader{{Key: strings.Repeat("h", free-len(`{"":null}`)+more)}}
			f.records <- []*kgo.Record{first, second}
			if b, err := c.next(t.Context()); err != nil || list(b.records) != want {
				t.Errorf("%d bytes too many: %s, %v; want %s", more, list(b.records), err, want)
			}
			c.carry = nil
		}
		// A record that is too large for an event is separated.
		f.records <- []*kgo.Record{read(0, 8, "a"), read(0, 9, strings.Repeat("x", 5_000_000)),
			read(0, 10, "b")}
		b, err := c.next(t.Context())
		if err != nil || list(b.records) != "0@8 0@10" || list(b.tooLarge) != "0@9" || b.ends[0] != 11 {
			t.Errorf("%s, too large %s, %v, %v", list(b.records), list(b.tooLarge), b.ends, err)
		}
	})
}

func TestGatheredRecordsAreKeptWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCollector(Config{BatchSize: 10, MaximumBatchingWindow: time.Minute})
		f.records <- []*kgo.Record{read(0, 1, "a"), read(0, 2, "b")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if b, err := c.next(ctx); b != nil || err != nil {
			t.Fatal(b, err)
		}
		if b, err := c.next(t.Context()); err != nil || list(b.records) != "0@1 0@2" {
			t.Errorf("%s, %v", list(b.records), err)
		}
		f.err = errors.New("broken")
		if _, err := c.next(t.Context()); !errors.Is(err, f.err) {
			t.Errorf("%v", err)
		}
	})
}

func TestFunctionCanParseThePayload(t *testing.T) {
	t.Parallel()
	c, _ := newCollector(Config{BatchSize: 10})
	r := read(10, 1<<60, `{"a":"ü"}`)
	r.Key, r.Headers = []byte("k"), []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}}
	b := &batch{envelope: c.envelope, ends: offsets{}, size: c.envelope.Size()}
	for _, r := range []*kgo.Record{r, read(2, 5, "x"),
		{Topic: "a-topic", Partition: 10, Offset: 1<<60 + 1}} {
		c.add(b, r)
	}
	payload := b.payload(b.records)
	if len(payload) != b.size.Bytes || !json.Valid(payload) {
		t.Errorf("%d bytes, counted %d: %s", len(payload), b.size.Bytes, payload)
	}
	event, err := msk.Decode(payload)
	if err != nil || len(event.Partitions) != 2 {
		t.Fatalf("%+v, %v", event, err)
	}
	got := event.Partitions[1]
	if len(got) != 2 || got[0].Source() != "a-topic-10@1152921504606846976" || string(got[0].Key) != "k" ||
		got[0].Headers[0].Value[0] != 0xff ||
		!got[1].Tombstone() || got[1].Key != nil {
		t.Errorf("decoded %+v", got)
	}
	for _, text := range []string{`"eventSource":"aws:kafka"`, `"eventSourceArn":"arn"`,
		`"bootstrapServers":"b:1"`, `"timestampType":"CREATE_TIME"`} {
		if !strings.Contains(string(payload), text) {
			t.Errorf("no %s in %s", text, payload)
		}
	}
}
