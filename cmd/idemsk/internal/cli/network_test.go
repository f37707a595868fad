package cli_test

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// emptyAWS is an endpoint with an empty table, stream and queue. It never answers the first request of each
// kind.
type emptyAWS struct {
	lost string // the kind, as X-Amz-Target has it
	lose func()
	once sync.Once
}

// ServeHTTP implements http.Handler.
func (e *emptyAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, what, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if what == e.lost {
		e.once.Do(e.lose)
	}
	text := map[string]string{
		"DescribeTable":  `{"Table":{"LatestStreamArn":"arn:of:the:stream"}}`,
		"DescribeStream": `{"StreamDescription":{"Shards":[]}}`,
		"Scan":           `{"Items":[],"Count":0}`,
	}[what]
	if text == "" {
		text = "{}"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 10))
	_, _ = fmt.Fprint(w, text)
}

// A verb that gets no answer retries over a new connection.
func TestVerbsRetryWhenAWSDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const soon = 20 * time.Second // above two attempts
	brokers := clitest.NewCluster(t)
	for _, tc := range []struct {
		args []string
		lost string
		code int
		says string
	}{
		{[]string{"redrive", "--queue-url", "http://127.0.0.1/0/letters", "--function-name", "payments",
			"--yes"}, "ReceiveMessage", 0, "there are no dead letters"},
		{[]string{"outbox", "--outbox-table", "idemsk-outbox"}, "Scan", 0, ""},
		{[]string{"relay", "--outbox-table", "idemsk-outbox", "--brokers", brokers, "--until-empty"},
			"DescribeTable", 0, "0 published"},
		{[]string{"relay", "--outbox-table", "idemsk-outbox", "--brokers", brokers, "--until-empty"},
			"DescribeStream", 0, "0 published"},
		{[]string{"list"}, "Scan", 0, ""},
		{[]string{"get", "payments#k"}, "GetItem", 1, "there is no entry"},
	} {
		t.Run(tc.args[0]+" "+tc.lost, func(t *testing.T) {
			t.Parallel()
			service := &emptyAWS{lost: tc.lost}
			server := httptest.NewServer(service)
			t.Cleanup(server.Close)
			proxy, url := faultproxy.StartURL(t, server.URL)
			t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
			service.lose = func() { proxy.NextReply(faultproxy.Silent) }
			begun := time.Now()
			r := clitest.Run(t, append(tc.args, "--endpoint-url", url)...)
			if took := time.Since(begun); took > soon {
				t.Errorf("it took %v, want at most %v", took, soon)
			}
			if r.Code != tc.code || !strings.Contains(r.Out+r.Err, tc.says) || proxy.Connections() < 2 {
				t.Errorf("%+v, over %d connections; want exit code %d and %q", r, proxy.Connections(),
					tc.code, tc.says)
			}
		})
	}
}
