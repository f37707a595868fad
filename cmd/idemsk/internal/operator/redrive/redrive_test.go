package redrive_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

func bodies(t *testing.T, letters ...kafka.DeadLetter) (all [][]byte) {
	t.Helper()
	for i := range letters {
		all = append(all, encode(t, &letters[i]))
	}
	return all
}

// A topic that was created again has another record at the place of a dead letter. Without a token the
// letters differ by their records alone.
func TestLettersOfDifferentRecordsOfOnePlace(t *testing.T) {
	t.Parallel()
	first := letter(7)
	first.Token = 0
	var records, again []kafka.DeadLetter
	for _, change := range []func(l *kafka.DeadLetter){
		func(*kafka.DeadLetter) {},
		func(l *kafka.DeadLetter) { l.Timestamp++ },
		func(l *kafka.DeadLetter) { l.Key = []byte("acc-2") },
		func(l *kafka.DeadLetter) { l.Key = []byte{} },
		func(l *kafka.DeadLetter) { l.Key = nil },
		func(l *kafka.DeadLetter) { l.Value = []byte(`{"paymentId":"q"}`) },
		func(l *kafka.DeadLetter) { l.Value = []byte{} },
		func(l *kafka.DeadLetter) { l.Value = nil },
		func(l *kafka.DeadLetter) { l.Value, l.ValueOmitted = nil, 1 },
		func(l *kafka.DeadLetter) { l.Value, l.ValueOmitted = nil, 2 },
		func(l *kafka.DeadLetter) { l.Value, l.ValueOmitted, l.ValueObject = nil, 2, "s3://b/1" },
		func(l *kafka.DeadLetter) { l.Value, l.ValueOmitted, l.ValueObject = nil, 2, "s3://b/2" },
		func(l *kafka.DeadLetter) { l.Headers = []kafka.DeadHeader{{Key: "h", Value: []byte("v")}} },
		func(l *kafka.DeadLetter) { l.Headers = []kafka.DeadHeader{{Key: "h", Value: []byte{}}} },
		func(l *kafka.DeadLetter) { l.Headers = []kafka.DeadHeader{{Key: "h"}} },
		func(l *kafka.DeadLetter) { l.Headers, l.Omitted = nil, []string{"headers"} },
	} {
		l := first
		change(&l)
		records = append(records, l)
		l.Attempts, l.Error.Message, l.Error.At = l.Attempts+1, "again", l.Error.At.Add(time.Second)
		again = append(again, l)
	}
	src := &listSource{bodies: bodies(t, append(records, again...)...)}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: &listDestination{}, DryRun: true,
		Reader: reader{}})
	for i, r := range results {
		if want := map[bool]redrive.Outcome{true: redrive.WouldRedrive,
			false: redrive.Duplicate}[i < len(records)]; r.Outcome != want {
			t.Errorf("letter %d: %s; want %s", i, r.Outcome, want)
		}
	}
	if len(results) != 2*len(records) {
		t.Errorf("%d results", len(results))
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	undecoded := letter(4)
	undecoded.Undecoded = []byte(`{"value":42}`)
	omitted := letter(5)
	omitted.Value, omitted.ValueOmitted = nil, 100_000
	src := &listSource{bodies: append(bodies(t, letter(1), letter(2), letter(1), undecoded, omitted),
		[]byte(`{"an":"order"}`))}
	dst := &listDestination{refuse: map[int64]bool{2: true}}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: dst})
	want := "a redriven, b not redriven, c duplicate, d not redriven, e not redriven, f not a dead letter"
	if got := outcomes(results); got != want {
		t.Errorf("outcomes:\n got %s\nwant %s", got, want)
	}
	if !slices.Equal(src.done, []string{"a", "c"}) || !src.closed || !slices.Equal(dst.sent, []int64{1}) {
		t.Errorf("taken out %v, sent %v, closed %v; want a and c, 1, true", src.done, dst.sent, src.closed)
	}
	for i, says := range map[int]string{1: "refused", 3: "can't be decoded", 4: "give --brokers",
		5: "not a dead letter"} {
		if !strings.Contains(results[i].Error, says) {
			t.Errorf("result %d says %q, want %q", i, results[i].Error, says)
		}
	}
	if r := results[0]; r.Source != "payments-1@1" || r.Where != "list" || r.Cause != "permanent: no" ||
		r.Key != "ledger#payments#p" {
		t.Errorf("the first result: %+v", r)
	}
}

// objects is an S3 with the objects of a bucket.
type objects map[string]string

// GetObject implements s3.Getter.
func (o objects) GetObject(_ context.Context, in *awss3.GetObjectInput,
	_ ...func(*awss3.Options)) (*awss3.GetObjectOutput, error) {
	value, ok := o[*in.Key]
	if !ok {
		return nil, &types.NoSuchKey{}
	}
	return &awss3.GetObjectOutput{Body: io.NopCloser(strings.NewReader(value))}, nil
}

// reader is a Kafka that has every record, with the value "kafka".
type reader struct{}

func (reader) Fill(_ context.Context, l *kafka.DeadLetter) error {
	l.Value = []byte("kafka")
	return nil
}

// keeper keeps the values that it gets.
type keeper struct{ values []string }

func (*keeper) String() string { return "a list" }

func (k *keeper) Send(_ context.Context, l *kafka.DeadLetter) (string, error) {
	k.values = append(k.values, string(l.Value))
	return "list", nil
}

// What was left out of a letter is read from S3 if it is there, or else from Kafka. A message of a queue is not in
// Kafka.
func TestWhatWasLeftOutOfLetters(t *testing.T) {
	t.Parallel()
	stored := make(objects)
	of := func(offset int64, object, cluster string) kafka.DeadLetter {
		l := letter(offset)
		l.Value, l.Cluster = []byte("s3"), cluster
		if object != "" {
			stored[object] = string(encode(t, &l))
			l.ValueObject = "s3://letters/" + object
		}
		l.Value, l.Headers, l.ValueOmitted, l.Omitted = nil, nil, 2, []string{"headers"}
		return l
	}
	const queue = "arn:aws:sqs:us-east-1:123456789012:payments"
	letters := []kafka.DeadLetter{of(1, "a", ""), of(2, "gone", ""), of(3, "", ""), of(4, "b", queue),
		of(5, "gone", queue), of(6, "", queue)}
	delete(stored, "gone")
	for _, tc := range []struct {
		reader   redrive.Reader
		outcomes string
		values   []string
		says     map[int]string
	}{
		{nil, "a redriven, b not redriven, c not redriven, d redriven, e not redriven, f not redriven", []string{"s3", "s3"},
			map[int]string{1: "lifecycle rule", 2: "give --brokers", 4: "lifecycle rule", 5: "deleted from its queue"}},
		{reader{}, "a redriven, b redriven, c redriven, d redriven, e not redriven, f not redriven",
			[]string{"s3", "kafka", "kafka", "s3"}, map[int]string{4: "lifecycle rule", 5: "deleted from its queue"}},
	} {
		dst := &keeper{}
		results, _ := runAll(t, redrive.Options{
			Source: &listSource{bodies: bodies(t, letters...)}, Destination: dst, Reader: tc.reader,
			Values: func(context.Context) (s3.Getter, error) { return stored, nil },
		})
		if got := outcomes(results); got != tc.outcomes || !slices.Equal(dst.values, tc.values) {
			t.Errorf("%s, values %q; want %s, %q", got, dst.values, tc.outcomes, tc.values)
		}
		for i, says := range tc.says {
			if !strings.Contains(results[i].Error, says) {
				t.Errorf("result %d says %q, want %q", i, results[i].Error, says)
			}
		}
	}
}

func TestLetterOfThisRunIsLeft(t *testing.T) {
	t.Parallel()
	again := letter(1)
	again.Error.At = time.Now().Add(time.Minute)
	src := &listSource{bodies: bodies(t, again)}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: &listDestination{}})
	if r := results[0]; r.Outcome != redrive.NotRedriven || !strings.Contains(r.Error, "not fixed") ||
		len(src.done) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestLimitAndKey(t *testing.T) {
	t.Parallel()
	other := letter(9)
	other.IdempotencyKey = "ledger#payments#other"
	for _, key := range []string{"ledger#payments#p", "p"} { // as stored, as the record has it
		src := &listSource{bodies: bodies(t, other, letter(1), letter(2), letter(3))}
		results, passed := runAll(t, redrive.Options{Source: src, Destination: &listDestination{}, Key: key,
			Limit: 2})
		if got := outcomes(results); got != "b redriven, c redriven" || passed != (redrive.Passed{Key: 1}) ||
			src.next != 3 {
			t.Errorf("%s: %s; passed over %+v, read %d messages; want b and c, 1, 3", key, got, passed,
				src.next)
		}
	}
}

func TestLetterThatCannotBeTakenOut(t *testing.T) {
	t.Parallel()
	src := &listSource{bodies: bodies(t, letter(1)), err: errors.New("gone")}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: &listDestination{}})
	if r := results[0]; r.Outcome != redrive.Redriven ||
		!strings.Contains(r.Error, "could not be removed from the source") {
		t.Errorf("%+v; want redriven, with a word that it stays", r)
	}
}

func TestInterruptedRunGivesBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	src := &listSource{bodies: bodies(t, letter(1), letter(2))}
	n := 0
	_, err := redrive.Run(ctx, redrive.Options{Source: src, Destination: &listDestination{}},
		func(redrive.Result) { n++; cancel() })
	if !errors.Is(err, context.Canceled) || n != 1 || !src.closed || len(src.done) != 1 {
		t.Errorf("%v after %d letters, closed %v, taken out %v", err, n, src.closed, src.done)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	l := letter(1)
	// no line break at the end
	text := "\ufeff" + string(encode(t, &l)) + "\n\n  \nnot JSON\n" + string(encode(t, &l))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := redrive.OpenFile(path, "")
	if err != nil {
		t.Fatal(err)
	}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: &listDestination{}})
	if got := outcomes(results); got != "line 1 redriven, line 4 not a dead letter, line 5 duplicate" {
		t.Error(got)
	}
	for _, text := range []string{"{\n  \"Messages\": [\n  ]\n}", "\n[\n{}\n]\n", "one\ntwo\n"} {
		other := filepath.Join(t.TempDir(), "messages.json")
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		src, err := redrive.OpenFile(other, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = redrive.Run(t.Context(), redrive.Options{Source: src, Destination: &listDestination{}},
			func(r redrive.Result) { t.Errorf("%q: %+v", text, r) })
		if err == nil || !strings.Contains(err.Error(), "one dead letter a line") || !strings.Contains(err.Error(), "messages.json") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != text {
		t.Errorf("the file has changed, or is gone: %v", err)
	}
}
