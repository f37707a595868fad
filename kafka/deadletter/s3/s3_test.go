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

func TestLargeValueIsStoredAndReadBack(t *testing.T) {
	roundTrip(t, start(t, new(s3test.Server)))
}

func roundTrip(t *testing.T, c *awss3.Client) {
	t.Helper()
	var next sent
	spill := newSpill(t, &next, c, s3.Config{Prefix: "ledger/", MaxValue: 1000})
	large := letter(1001)
	for range 2 { // a letter that is sent again has the same object
		if err := spill.Send(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	want := letter(0)
	want.Value, want.ValueOmitted, want.ValueObject = nil, 1001, "s3://"+bucket+"/ledger/"+large.ID()
	if !reflect.DeepEqual(next.letters, []kafka.DeadLetter{want, want}) {
		t.Errorf("the letters are %+v; want two of %+v", next.letters, want)
	}
	got := next.letters[0]
	if err := s3.Fill(t.Context(), c, &got); err != nil || !reflect.DeepEqual(got, large) {
		t.Errorf("filled: %+v, %v; want the letter", got, err)
	}
}

func TestSmallValueStaysInTheLetter(t *testing.T) {
	var next sent
	fake := new(s3test.Server)
	c := start(t, fake)
	if err := newSpill(t, &next, c, s3.Config{}).Send(t.Context(), letter(s3.DefaultMaxValue)); err != nil {
		t.Fatal(err)
	}
	if fake.Len() != 0 || len(next.letters[0].Value) != s3.DefaultMaxValue {
		t.Errorf("%d objects, and a letter with %d bytes", fake.Len(), len(next.letters[0].Value))
	}
	next.err = errors.New("refused")
	if err := newSpill(t, &next, c, s3.Config{}).Send(t.Context(), letter(1)); !errors.Is(err, next.err) {
		t.Errorf("%v; want the error of the queue", err)
	}
}

// A letter whose value can't be stored is not sent without it: the record is delivered again.
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
			"1048576 bytes"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not contain %q", err, want)
			}
		}
	}
}

func TestFillErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		fault, object, says string
		size                int
	}{
		"deleted":        {"", "s3://" + bucket + "/gone", "lifecycle rule", 3},
		"not permitted":  {"AccessDenied", "s3://" + bucket + "/key", "s3:GetObject", 3},
		"a shorter one":  {"", "s3://" + bucket + "/key", "does not have the 4 bytes", 4},
		"a longer one":   {"", "s3://" + bucket + "/key", "does not have the 2 bytes", 2},
		"no key":         {"", "s3://" + bucket, "want s3://BUCKET/KEY", 3},
		"another scheme": {"", "http://" + bucket + "/key", "want s3://BUCKET/KEY", 3},
		"no bucket":      {"", "s3:///key", "want s3://BUCKET/KEY", 3},
	} {
		fake := &s3test.Server{Fault: tc.fault}
		c := start(t, fake)
		fake.Put("/"+bucket+"/key", []byte("old"))
		l := letter(0)
		l.Value, l.ValueObject, l.ValueOmitted = nil, tc.object, tc.size
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
