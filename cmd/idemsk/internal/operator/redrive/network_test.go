package redrive_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

const (
	shortTimeout = 2 * time.Second  // for the servers to answer, in these tests
	soon         = 30 * time.Second // above a few of these, and below what would be waited for without
)

// dialBehindProxy connects to a cluster through a proxy.
func dialBehindProxy(t *testing.T) (*redrive.Kafka, *kfake.Cluster, *faultproxy.Proxy) {
	t.Helper()
	var proxy *faultproxy.Proxy
	c := newCluster(t, kfake.ListenFn(func(string, string) (l net.Listener, err error) {
		l, proxy = faultproxy.Listen(t)
		return l, nil
	}))
	k, err := redrive.Dial(t.Context(), redrive.Cluster{Brokers: c.ListenAddrs(), Timeout: shortTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k, c, proxy
}

// within wants f to end soon.
func within(t *testing.T, what string, f func(ctx context.Context) error) error {
	t.Helper()
	begun := time.Now()
	err := f(t.Context())
	if took := time.Since(begun); took > soon {
		t.Errorf("%s took %v, want at most %v", what, took, soon)
	}
	return err
}

// A letter that is not known to have arrived is an error, soon; the next ones go over new connections.
func TestARedriveGoesOnWhenItsConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	k, c, proxy := dialBehindProxy(t)
	produce(t, c, &kgo.Record{Topic: "payments", Partition: 1, Key: []byte("acc-1"), Value: []byte("v")})
	send := func(ctx context.Context) error {
		l := letter(1)
		_, err := k.Send(ctx, &l)
		return err
	}
	read := func(ctx context.Context) error {
		l := letter(0)
		l.Value, l.ValueOmitted, l.Timestamp = nil, 1, 0
		return k.Fill(ctx, &l)
	}
	for what, f := range map[string]func(ctx context.Context) error{"to produce": send, "to read": read} {
		if err := within(t, what, f); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		proxy.Existing(faultproxy.Silent)
		_ = within(t, what, f) // it may be the one that finds out
		if err := within(t, what, f); err != nil {
			t.Errorf("%s over new connections: %v", what, err)
		}
		proxy.Existing(faultproxy.Silent)
		proxy.New(faultproxy.Silent)
		if err := within(t, what, f); err == nil {
			t.Errorf("%s: nothing answered, and there is no error", what)
		}
		proxy.New(faultproxy.None)
		if err := within(t, what, f); err != nil {
			t.Errorf("%s when the network is back: %v", what, err)
		}
	}
}

// silentLambda never answers.
type silentLambda struct{}

func (silentLambda) Invoke(ctx context.Context, _ *lambda.InvokeInput,
	_ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A function may run for 15 minutes without a word. What takes longer will not come.
func TestAnInvocationThatIsNeverAnsweredEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		l := letter(1)
		_, err := redrive.Function(silentLambda{}, "pay").Send(t.Context(), &l)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took < 15*time.Minute ||
			took > 20*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}
