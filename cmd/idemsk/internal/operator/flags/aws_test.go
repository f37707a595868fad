package flags_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
)

// Credentials are no remedy for a service on this machine that does not run.
func TestExplainRefusedConnection(t *testing.T) {
	t.Parallel()
	const credentials = "aws sts get-caller-identity"
	for address, want := range map[string]string{
		"127.0.0.1:4566": "(nothing listens at 127.0.0.1:4566: start the service",
		"[::1]:4566":     "(nothing listens at [::1]:4566: start the service",
		"192.0.2.1:443":  credentials,
	} {
		to, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		refused := &smithy.OperationError{ServiceID: "SQS", OperationName: "ReceiveMessage",
			Err: &net.OpError{Op: "dial", Addr: to, Err: syscall.ECONNREFUSED}}
		got := flags.ExplainAWS(refused)
		if !errors.Is(got, refused) || !strings.Contains(got.Error(), want) ||
			want != credentials && strings.Contains(got.Error(), credentials) {
			t.Errorf("%s: %v; want %q", address, got, want)
		}
	}
}
