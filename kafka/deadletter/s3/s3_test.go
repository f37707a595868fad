package s3_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bucket = "payments-dead-letters"

func start(t *testing.T, fake *s3test.Server) *awss3.Client {
	t.Helper()
	return s3test.Client(t, fake.Start(t))
}

// sent notes the letters that it gets.
type sent struct {
	letters []kafka.DeadLetter
	err     error
}

// Send implements kafka.DeadLetters.
func (s *sent) Send(_ context.Context, l kafka.DeadLetter) error {
	s.letters = append(s.letters, l)
	return s.err
}

func letter(size int) kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "payments", Partition: 3, Offset: 17, Key: []byte("acc-1"),
		Value: bytes.Repeat([]byte("v"), size), Token: 7,
		Error: store.Failure{Code: store.CodePermanent, Message: "no",
			At: time.UnixMilli(1767225600002).UTC()},
	}
}

func newSpill(t *testing.T, next kafka.DeadLetters, c s3.Putter, cfg s3.Config) *s3.Spill {
	t.Helper()
	cfg.Bucket = bucket
	s, err := s3.New(next, c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLargeLetterIsStoredAndReadBack(t *testing.T) {
	roundTrip(t, start(t, new(s3test.Server)))
}

func roundTrip(t *testing.T, c *awss3.Client) {
	t.Helper()
	var next sent
	spill := newSpill(t, &next, c, s3.Config{Prefix: "ledger/", MaxValue: 1000})
	large := letter(996) // with its key 1,001 bytes
	for range 2 {        // a letter that is sent again has the same object
		if err := spill.Send(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	want := letter(0)
	want.Value, want.ValueOmitted, want.ValueObject = nil, 996, "s3://"+bucket+"/ledger/"+large.ID()
	if !reflect.DeepEqual(next.letters, []kafka.DeadLetter{want, want}) {
		t.Errorf("the letters are %+v; want two of %+v", next.letters, want)
	}
	got := next.letters[0]
	if err := s3.Fill(t.Context(), c, &got); err != nil || !reflect.DeepEqual(got, large) {
		t.Errorf("filled: %+v, %v; want the letter", got, err)
	}
}

// limited accepts letters of up to a number of bytes.
type limited struct {
	sent

	bytes int
}

// Send implements kafka.DeadLetters.
func (s *limited) Send(ctx context.Context, l kafka.DeadLetter) error {
	body, err := l.Encode(s.bytes)
	if err != nil {
		return err
	}
	if l, err = kafka.ParseDeadLetter(body); err != nil {
		return err
	}
	return s.sent.Send(ctx, l)
}

// Whatever is large in a letter, the letter in the bucket has it, and the one that is sent fits. So does that of
// a queue's message, from which nothing may be left out otherwise, if the destination accepts less than the
// bucket's threshold.
func TestLettersThatAreLargeInAnyField(t *testing.T) {
	const large = 3000
	for name, change := range map[string]func(l *kafka.DeadLetter){
		"value":   func(l *kafka.DeadLetter) { l.Value = bytes.Repeat([]byte{0xff}, large) },
		"headers": func(l *kafka.DeadLetter) { l.Headers = []kafka.DeadHeader{{Key: "h", Value: make([]byte, large)}} },
		"undecoded": func(l *kafka.DeadLetter) {
			l.Value, l.Undecoded = nil, bytes.Repeat([]byte("u"), large)
		},
		"key": func(l *kafka.DeadLetter) { l.Key = bytes.Repeat([]byte("k"), large) },
		"all": func(l *kafka.DeadLetter) {
			l.Value, l.Key = bytes.Repeat([]byte("v"), large), make([]byte, large)
			l.Headers = []kafka.DeadHeader{{Key: "h", Value: make([]byte, large)}, {Key: "null"}}
		},
	} {
		for _, cluster := range []string{"arn:aws:sqs:us-east-1:1:payments", "arn:aws:kafka:us-east-1:1:cluster/a/1"} {
			for _, threshold := range []int{100, 100_000} {
				next := limited{bytes: 1000}
				c := start(t, new(s3test.Server))
				want := letter(5)
				change(&want)
				want.Cluster = cluster
				if err := newSpill(t, &next, c, s3.Config{MaxValue: threshold}).Send(t.Context(), want); err != nil {
					t.Errorf("%s of %s: %v", name, cluster, err)
					continue
				}
				got := next.letters[0]
				if got.Queue() == "" && threshold > large { // the record is in Kafka
					continue
				}
				if err := s3.Fill(t.Context(), c, &got); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s of %s: filled: %+v, %v; want the letter", name, cluster, got, err)
				}
			}
		}
	}
}

func TestSmallLetterIsSentAsItIs(t *testing.T) {
	var next sent
	fake := new(s3test.Server)
	c := start(t, fake)
	const largest = s3.DefaultMaxValue - len("acc-1")
	if err := newSpill(t, &next, c, s3.Config{}).Send(t.Context(), letter(largest)); err != nil {
		t.Fatal(err)
	}
	if fake.Len() != 0 || len(next.letters[0].Value) != largest {
		t.Errorf("%d objects, and a letter with %d bytes", fake.Len(), len(next.letters[0].Value))
	}
	next.err = errors.New("refused")
	if err := newSpill(t, &next, c, s3.Config{}).Send(t.Context(), letter(1)); !errors.Is(err, next.err) {
		t.Errorf("%v; want the error of the queue", err)
	}
}

// A large letter that can't be stored is not sent: the record is delivered again.
func TestErrorsNameTheObjectAndTheRemedy(t *testing.T) {
	for fault, says := range map[string]string{"AccessDenied": "s3:PutObject",
		"NoSuchBucket": "no such bucket", "SlowDown": "the fake refuses"} {
		var next sent
		large := letter(1 << 20)
		err := newSpill(t, &next, start(t, &s3test.Server{Fault: fault}), s3.Config{}).Send(t.Context(),
			large)
		if err == nil || len(next.letters) > 0 {
			t.Errorf("%s: %v; %d letters were sent", fault, err, len(next.letters))
			continue
		}
		for _, want := range []string{says, "payments-3@17", "s3://" + bucket + "/" + large.ID(),
			" bytes)"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not contain %q", err, want)
			}
		}
	}
}

func TestFillErrors(t *testing.T) {
	other := letter(3)
	other.Token++
	another, err := other.Encode(1000)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ fault, object, content, says string }{
		"deleted":        {"", "s3://" + bucket + "/gone", "", "lifecycle rule"},
		"not permitted":  {"AccessDenied", "s3://" + bucket + "/key", "", "s3:GetObject"},
		"cut off":        {"", "s3://" + bucket + "/key", `{"topic":"pay`, "not a dead letter"},
		"another letter": {"", "s3://" + bucket + "/key", string(another), "has another dead letter"},
		"no key":         {"", "s3://" + bucket, "", "want s3://BUCKET/KEY"},
		"another scheme": {"", "http://" + bucket + "/key", "", "want s3://BUCKET/KEY"},
		"no bucket":      {"", "s3:///key", "", "want s3://BUCKET/KEY"},
	} {
		fake := &s3test.Server{Fault: tc.fault}
		c := start(t, fake)
		fake.Put("/"+bucket+"/key", []byte(tc.content))
		l := letter(0)
		l.Value, l.ValueObject, l.ValueOmitted = nil, tc.object, 3
		err := s3.Fill(t.Context(), c, &l)
		if err == nil || !strings.Contains(err.Error(), tc.says) ||
			!strings.Contains(err.Error(), "payments-3@17") || l.Value != nil {
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}

func TestNewRefusesInvalidConfigurations(t *testing.T) {
	c := start(t, new(s3test.Server))
	for want, tc := range map[string]struct {
		next   kafka.DeadLetters
		client s3.Putter
		cfg    s3.Config
	}{
		"a client of S3":    {&sent{}, nil, s3.Config{Bucket: bucket}},
		"want dead letters": {nil, c, s3.Config{Bucket: bucket}},
		`Bucket is ""`:      {&sent{}, c, s3.Config{}},
		`Bucket is "My"`:    {&sent{}, c, s3.Config{Bucket: "My"}},
		"MaxValue is -1":    {&sent{}, c, s3.Config{Bucket: bucket, MaxValue: -1}},
		"Prefix has 513":    {&sent{}, c, s3.Config{Bucket: bucket, Prefix: strings.Repeat("p", 513)}},
	} {
		if _, err := s3.New(tc.next, tc.client, tc.cfg); !errors.Is(err, idem.ErrInvalidConfig) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
