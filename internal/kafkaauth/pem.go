package kafkaauth

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// isPEM tells a PEM text from a file's name.
func isPEM(s string) bool { return strings.HasPrefix(s, "-----BEGIN ") }

// readPEM returns a PEM text, or the content of its file. Its error does not contain s, which may be a key in
// a wrong form.
func readPEM(s string) ([]byte, error) {
	if isPEM(s) {
		return []byte(s), nil
	}
	text, err := os.ReadFile(s) //nolint:gosec // the operator sets the path
	if err == nil {
		return text, nil
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return nil, fmt.Errorf("it does not begin with -----BEGIN, and as a file: %w", err)
}

// readKeyPair returns the certificate of two PEM texts or files.
func readKeyPair(certificate, key string) (*tls.Certificate, error) {
	certPEM, err := readPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	keyPEM, err := readPEM(key)
	if err != nil {
		return nil, fmt.Errorf("the key: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM) // its error contains nothing of the key
	return &pair, err
}
