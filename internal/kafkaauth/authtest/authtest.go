// Package authtest makes certificates for tests of authentication.
package authtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Certificate returns a self-signed certificate for 127.0.0.1, and the files of it and of its private key, in
// PEM.
func Certificate(t *testing.T) (cert tls.Certificate, certFile, keyFile string) {
	t.Helper()
	server := httptest.NewTLSServer(nil) // it has one
	defer server.Close()
	cert = server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return cert, write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "PRIVATE KEY", key)
}

// Text returns the content of a file.
func Text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // a test's own file
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
