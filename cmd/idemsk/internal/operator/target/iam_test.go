package target_test

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

// A verb logs in to a cache by IAM, and explains why the cache refuses it.
func TestVerbLogsInByIAM(t *testing.T) {
	own := httptest.NewTLSServer(nil) // it has a certificate
	defer own.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"SSL_CERT_FILE": ca, "AWS_CONFIG_FILE": "/dev/null",
		"AWS_PROFILE": "", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "key"} {
		t.Setenv(name, value)
	}
	cache, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: own.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	received := make(chan string, 1)
	go func() {
		defer close(received)
		conn, err := cache.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		command := make([]byte, 4096)
		n, _ := conn.Read(command)
		received <- string(command[:n])
		_, _ = io.WriteString(conn, "-WRONGPASS the token is invalid\r\n-WRONGPASS the token is invalid\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}()
	r := clitest.Run(t, "get", "k", "--store-url", "rediss://u@"+cache.Addr().String()+
		"?max_retries=-1&iam=arn:aws:memorydb:eu-central-1:111122223333:cluster/payments")
	if r.Code != 1 || !strings.Contains(r.Err, "the AWS role needs the permission Connect") {
		t.Errorf("%+v; want exit 1, and what to do", r)
	}
	if login := <-received; !strings.Contains(login, "payments/?Action=connect&User=u&") ||
		!strings.Contains(login, "%2Feu-central-1%2Fmemorydb%2F") {
		t.Errorf("the cache received %q; want a token for it", login)
	}
}
