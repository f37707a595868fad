package redrive_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
)

// certificate is a certificate for 127.0.0.1 that signs itself, as files too.
func certificate(t *testing.T) (cert tls.Certificate, certFile, keyFile string) {
	t.Helper()
	server := httptest.NewTLSServer(nil) // it brings one
	defer server.Close()
	cert = server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return cert, write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "PRIVATE KEY", key)
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	cert, certFile, keyFile := certificate(t)
	c := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}))
	l := letter(1)
	k := dial(t, c, redrive.Security{CA: certFile, Cert: certFile, Key: keyFile})
	if _, err := k.Send(t.Context(), &l); err != nil {
		t.Error(err)
	}
}

func TestWrongCertificates(t *testing.T) {
	t.Parallel()
	cert, certFile, keyFile := certificate(t)
	c := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	for name, test := range map[string]struct {
		security redrive.Security
		says     string
	}{
		"an untrusted CA":    {redrive.Security{TLS: true}, "--tls"},
		"no such file":       {redrive.Security{CA: "nowhere.pem"}, "nowhere.pem"},
		"a CA that is none":  {redrive.Security{CA: keyFile}, "has none in PEM"},
		"a key that is none": {redrive.Security{CA: certFile, Cert: certFile, Key: certFile}, "certificate and key"},
	} {
		if _, err := redrive.Dial(t.Context(), redrive.Cluster{Brokers: c.ListenAddrs(), Security: test.security}); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want %q", name, err, test.says)
		}
	}
}
