//go:build servers

package storebench

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// BenchmarkRedisServer measures what a fresh record costs the server, with a key of 40 bytes and a result of 10: the
// time of its scripts for the claim and the completion, and the memory after them. The loop is that of
// BenchmarkStreams. An operation is a record.
func BenchmarkRedisServer(b *testing.B) {
	for _, kind := range []redisserver.Kind{redisserver.Redis, redisserver.Valkey} {
		for name, run := range map[string]func(b *testing.B, client *goredis.Client, url string, keys []string){
			"loop": func(b *testing.B, client *goredis.Client, _ string, keys []string) { mark(b, client, keys) },
			"store": func(b *testing.B, _ *goredis.Client, url string, keys []string) {
				claimAndComplete(b, url, keys)
			},
		} {
			b.Run(fmt.Sprint(kind, "/", name), func(b *testing.B) {
				server := testkit.Run(b, redisserver.Start, redisserver.Config{Kind: kind})
				options, err := goredis.ParseURL(server.URL())
				check(b, err)
				client := goredis.NewClient(options)
				testkit.CloseAtEnd(b, client)
				keys := make([]string, b.N)
				for i := range keys {
					keys[i] = fmt.Sprintf("payments#%031d", i)
				}
				before := info(b, client, "memory", `used_memory:(\d+)`)
				run(b, client, server.URL(), keys)
				b.ReportMetric((info(b, client, "memory", `used_memory:(\d+)`)-before)/float64(b.N), "B/key")
				micros := info(b, client, "commandstats", `cmdstat_eval.*usec=(\d+)`)
				b.ReportMetric(micros/float64(b.N), "server-µs/key")
			})
		}
	}
}

// info returns the sum of what a pattern finds in the lines of a section of INFO.
func info(b *testing.B, client *goredis.Client, section, pattern string) (sum float64) {
	b.Helper()
	text, err := client.Info(b.Context(), section).Result()
	check(b, err)
	found := regexp.MustCompile("^" + pattern)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if m := found.FindStringSubmatch(lines.Text()); m != nil {
			n, err := strconv.ParseFloat(m[1], 64)
			check(b, err)
			sum += n
		}
	}
	return sum
}

// mark is a loop by hand, with a call for each 500 keys.
func mark(b *testing.B, client *goredis.Client, keys []string) {
	b.Helper()
	for n := 0; n < len(keys); n += Polled {
		poll := keys[n:min(n+Polled, len(keys))]
		check(b, startNew.Run(b.Context(), client, poll).Err())
		if err := done.Run(b.Context(), client, poll).Err(); err != nil && err != goredis.Nil { //nolint:errorlint // of the client
			b.Fatal(err)
		}
	}
}

func claimAndComplete(b *testing.B, url string, keys []string) {
	b.Helper()
	client, err := redisstore.NewClient(url)
	check(b, err)
	testkit.CloseAtEnd(b, client)
	st, err := redisstore.New(client, redisstore.Config{})
	check(b, err)
	const retention = 168 * time.Hour
	for n := 0; n < len(keys); n += st.BatchSize() {
		var claims []store.ClaimRequest
		for i := n; i < min(n+st.BatchSize(), len(keys)); i++ {
			claims = append(claims, store.ClaimRequest{Key: keys[i], Owner: "ABCDEFGHIJKLMNOP-" + strconv.FormatInt(int64(i), 36),
				Source: "payments-3@" + strconv.Itoa(1_000_000+i), Fingerprint: store.FingerprintOf([]byte(keys[i])),
				Lease: 30 * time.Second, Retention: retention})
		}
		var completions []store.Settlement
		for _, res := range st.Claim(b.Context(), claims) {
			check(b, res.Err)
			completions = append(completions, store.Settlement{Op: store.OpComplete, Key: res.Entry.Key, Token: res.Entry.Token,
				Owner: res.Entry.Owner, Retention: retention, Result: []byte("0123456789")})
		}
		for _, err := range st.Settle(b.Context(), completions) {
			check(b, err)
		}
	}
}
