//go:build servers

package redis_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/internal/test/apptest"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/lambda/msk"
)

// TestMain makes the process trust the certificate of the caches.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "")
	if err == nil {
		name := filepath.Join(folder, "ca.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
		err = errors.Join(os.WriteFile(name, text, 0o600), os.Setenv("SSL_CERT_FILE", name))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

func iamEnv(c *cache) map[string]string {
	return map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": c.url()}
}

// disconnect makes the server close the connections of the cache's user, as AWS does after 12 hours.
func disconnect(t *testing.T, server *redisserver.Server) {
	t.Helper()
	if n := apptest.Must(server.Do(t.Context(), "CLIENT", "KILL", "USER", cacheUser)); n == int64(0) {
		t.Error("there was no connection to close")
	}
}

// A function logs in with the credentials that its role has at the time of the connection.
func TestLoginByIAM(t *testing.T) {
	server := startRedis(t, nil)
	c := startCache(t, server)
	role := startRole(t, "one", -time.Minute) // each connection asks for them again
	calls := 0
	f := apptest.MustStart(t, iamEnv(c), func(context.Context, msk.Record) ([]byte, error) {
		calls++
		return nil, nil
	}, redis.Store())
	defer f.Close()
	f.Deliver(t)
	apptest.Equal(t, "calls", calls, 1)
	before := c.count()

	role.give("two", time.Hour)
	c.accept("two", 0)
	disconnect(t, server)
	f.Settle(t)
	if c.count() == before {
		t.Error("no connection logged in with the later credentials")
	}
	wantCompleted(t, server, redisstore.DefaultPrefix, "ledger#payments#a")
}

// The server refuses the token, because the role lacks the permission, or the clock is wrong. Nothing is
// handled until it accepts one.
func TestLoginByIAMIsRefused(t *testing.T) {
	for name, refuse := range map[string]func(*cache){
		"the role":  func(c *cache) { c.accept("of another role", 0) },
		"the clock": func(c *cache) { c.accept("one", 16*time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			c := startCache(t, startRedis(t, nil))
			startRole(t, "one", time.Hour)
			refuse(c)
			f := apptest.MustStart(t, iamEnv(c), apptest.Returning("", nil), redis.Store())
			defer f.Close()
			if log := f.Stderr.String(); !strings.Contains(log, "WRONGPASS") ||
				!strings.Contains(log, "the AWS role needs the permission Connect on the cache") {
				t.Errorf("the log says %q; want what to check", log)
			}
			if _, err := f.Invoke(t.Context(), []byte(apptest.Event)); err == nil {
				t.Error("a batch without a login is a success")
			}
			c.accept("one", 0)
			f.Settle(t)
		})
	}
}

// The role's credentials can't be read. The error says so, and does not blame the server.
func TestNoCredentialsForTheLoginByIAM(t *testing.T) {
	c := startCache(t, startRedis(t, nil))
	role := startRole(t, "", 0)
	f := apptest.MustStart(t, iamEnv(c), apptest.Returning("", nil), redis.Store())
	defer f.Close()
	log := f.Stderr.String()
	if !strings.Contains(log, "the role has expired") ||
		!strings.Contains(log, "give the function or process a role with elasticache:Connect") ||
		strings.Contains(log, "no server answers") {
		t.Errorf("the log says %q; want that there are no credentials, and what to do", log)
	}
	role.give("one", time.Hour)
	f.Settle(t)
}

// newClient returns a client of a store.
func newClient(t *testing.T, url string, options ...func(*goredis.UniversalOptions)) goredis.UniversalClient {
	t.Helper()
	b := app.NewBase(apptest.Vars(nil), app.Config{StoreURL: url}, io.Discard)
	t.Cleanup(b.Close)
	client, err := redis.Client(t.Context(), b, options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Each node of a cluster gets a token.
func TestLoginByIAMToACluster(t *testing.T) {
	cluster := testkit.Run(t, redisserver.StartCluster, redisserver.Config{})
	startRole(t, "one", time.Hour)
	nodes := make(map[string]*cache)
	for _, n := range cluster.Nodes {
		nodes[n.Addr()] = startCache(t, n)
	}
	first := nodes[cluster.Nodes[0].Addr()]
	client := newClient(t, first.url()+"&cluster=true",
		func(o *goredis.UniversalOptions) { o.Dialer = through(nodes) })
	st, err := redisstore.New(client, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Check(t.Context()); !errors.Is(err, redisstore.ErrNotDurable) ||
		strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("the check: %v; want that no node keeps a file, and nothing else", err)
	}
	for addr, node := range nodes {
		if node.count() == 0 {
			t.Errorf("no connection logged in to the node at %s", addr)
		}
	}
}

// A connection ends before AWS closes it.
func TestConnectionsOfALoginByIAMEnd(t *testing.T) {
	startRole(t, "one", time.Hour)
	for parameter, want := range map[string]time.Duration{
		"":                        11 * time.Hour,
		"&conn_max_lifetime=24h":  11 * time.Hour,
		"&conn_max_lifetime=0":    11 * time.Hour,
		"&conn_max_lifetime=600s": 10 * time.Minute,
	} {
		client := newClient(t, "rediss://u@h?iam="+cacheARN+parameter)
		apptest.Equal(t, "the life of a connection with "+parameter,
			client.(*goredis.Client).Options().ConnMaxLifetime, want)
	}
}

func TestInvalidLoginsByIAM(t *testing.T) {
	const secure = "rediss://u@h?iam=" + cacheARN
	for want, env := range map[string]map[string]string{
		"IDEMSK_STORE_URL is missing or wrong: want rediss:// with iam": {
			"IDEMSK_STORE_URL": strings.Replace(secure, "rediss", "redis", 1)},
		"IDEMSK_STORE_URL is missing or wrong: want a user without a password with iam": {
			"IDEMSK_STORE_URL": strings.Replace(secure, "u@", "u:hush@", 1)},
		`IDEMSK_STORE_SECRET_ARN is "` + apptest.SecretARN + `": want none with iam in IDEMSK_STORE_URL`: {
			"IDEMSK_STORE_URL": secure, "IDEMSK_STORE_SECRET_ARN": apptest.SecretARN},
	} {
		env["IDEMSK_STORE"] = "redis"
		_, err := apptest.Start(t, env, apptest.Returning("", nil), redis.Store())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: error %v; want %q, and no password", env, err, want)
		}
	}
	apptest.NewSecrets(t, strings.Replace(secure, "u@", "u:hush@", 1))
	env := map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_SECRET_ARN": apptest.SecretARN}
	if _, err := apptest.Start(t, env, apptest.Returning("", nil), redis.Store()); err == nil ||
		!strings.Contains(err.Error(), "a user without a password") || strings.Contains(err.Error(), "hush") {
		t.Errorf("a URL with iam and a password in the secret: error %v", err)
	}
}
