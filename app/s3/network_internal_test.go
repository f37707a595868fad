package s3

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// sent is a queue that accepts every letter.
type sent struct{}

func (sent) Send(context.Context, kafka.DeadLetter) error { return nil }

func TestValueIsStoredAfterConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	server := new(s3test.Server)
	proxy, url := faultproxy.Serve(t, server)
	client := NewClient(aws.Config{Region: "eu-central-1", BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	letters, err := s3.New(sent{}, client, s3.Config{Bucket: "letters", MaxValue: 10})
	if err != nil {
		t.Fatal(err)
	}
	var offset int64
	proxy.WantToGoOn(t, 15*attemptTimeout, func(ctx context.Context) error {
		offset++
		return letters.Send(ctx, kafka.DeadLetter{Topic: "payments", Offset: offset,
			Value: make([]byte, 100)})
	})
	if server.Len() < 2 {
		t.Errorf("%d values are stored", server.Len())
	}
}
