//go:build servers

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/apptest"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/lambda/msk"
)

func startRedis(t *testing.T, settings map[string]string) *redisserver.Server {
	t.Helper()
	return testkit.Run(t, redisserver.Start, redisserver.Config{Settings: settings})
}

func TestFunctionOnRedis(t *testing.T) {
	server := startRedis(t, nil)
	calls := 0
	env := map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": server.URL(),
		"IDEMSK_TABLE": "app:keys"}
	f := apptest.MustStart(t, env, func(context.Context, msk.Record) ([]byte, error) {
		calls++
		return nil, nil
	}, redis.Store())
	defer f.Close()
	if log := f.Stderr.String(); !strings.Contains(log, `"level":"WARN"`) ||
		!strings.Contains(log, "set appendonly yes") {
		t.Errorf("the log says %q; want a warning that a crash loses keys", log)
	}
	for range 2 {
		out, err := f.Invoke(t.Context(), []byte(apptest.Event))
		if err != nil {
			t.Fatal(err)
		}
		apptest.Equal(t, "answer", string(out), `{"batchItemFailures":[]}`)
	}
	apptest.Equal(t, "calls", calls, 1)
	wantCompleted(t, server, "app:keys", "ledger#payments#a")
}

func TestFunctionOnACluster(t *testing.T) {
	cluster := testkit.Run(t, redisserver.StartCluster, redisserver.Config{})
	f := apptest.MustStart(t, map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": cluster.URL()},
		apptest.Returning("", nil), redis.Store())
	defer f.Close()
	if _, err := f.Invoke(t.Context(), []byte(apptest.Event)); err != nil {
		t.Error(err)
	}
}

// Records of evicted keys would be executed again without an error.
func TestServerThatEvictsIsRefused(t *testing.T) {
	server := startRedis(t, map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
	_, err := apptest.Start(t, map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": server.URL()},
		apptest.Returning("", nil), redis.Store())
	if !errors.Is(err, redisstore.ErrEvicts) || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("error %v; want ErrEvicts, and what to do", err)
	}
}

// If the server is unavailable at the start, it is checked before the first claim.
func TestServerThatStartsLateIsChecked(t *testing.T) {
	server := startRedis(t, nil)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	calls := 0
	f := apptest.MustStart(t, map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": server.URL()},
		func(context.Context, msk.Record) ([]byte, error) {
			calls++
			return nil, nil
		}, redis.Store())
	defer f.Close()
	if log := f.Stderr.String(); !strings.Contains(log, `"level":"ERROR"`) ||
		!strings.Contains(log, "no server answers at this address") {
		t.Errorf("without a server the log says %q; want what to check", log)
	}
	if _, err := f.Invoke(t.Context(), []byte(apptest.Event)); err == nil {
		t.Error("a batch without a server is a success")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	set := func(name, value string) { apptest.Must(server.Do(t.Context(), "CONFIG", "SET", name, value)) }
	set("maxmemory", "100mb")
	set("maxmemory-policy", "allkeys-lru")
	if _, err := f.Invoke(t.Context(), []byte(apptest.Event)); err == nil ||
		!strings.Contains(err.Error(), "noeviction") {
		t.Errorf("on a server that evicts: error %v; want one that says what to do", err)
	}
	apptest.Equal(t, "calls", calls, 0)
	set("maxmemory-policy", "noeviction")
	f.Settle(t)
	apptest.Equal(t, "calls", calls, 1)
	if log := f.Stderr.String(); !strings.Contains(log, "set appendonly yes") {
		t.Errorf("the log says %q; want the warning too that a crash loses keys", log)
	}
	scans := func() string { // which only checks do
		return regexp.MustCompile(`cmdstat_scan:calls=\d+`).FindString(
			fmt.Sprint(apptest.Must(server.Do(t.Context(), "INFO", "commandstats"))))
	}
	before := scans()
	f.Settle(t)
	apptest.Equal(t, "scans, as nothing is to be checked any more,", scans(), before)
}

// A crash that loses keys is a warning; an error of the store in addition is not.
func TestMissingPermissionIsAnError(t *testing.T) {
	server := startRedis(t, nil)
	apptest.Must(server.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">one", "~*", "+@all", "-set"))
	f := apptest.MustStart(t, map[string]string{"IDEMSK_STORE": "redis",
		"IDEMSK_STORE_URL": server.URLOf("app", "one")}, apptest.Returning("", nil), redis.Store())
	defer f.Close()
	if log := f.Stderr.String(); !strings.Contains(log, `"level":"ERROR","msg":"the store is not ready`) ||
		!strings.Contains(log, "lacks a permission") ||
		!strings.Contains(log, "set appendonly yes") {
		t.Errorf("the log says %q; want an error, with both findings", log)
	}
}

func TestRotatedRedisPassword(t *testing.T) {
	server := startRedis(t, nil)
	do := func(args ...any) { apptest.Must(server.Do(t.Context(), args...)) }
	do("ACL", "SETUSER", "app", "on", ">one", "~*", "+@all")
	secrets := apptest.NewSecrets(t, `{"username":"app","password":"one"}`)
	where := apptest.Must(url.Parse(server.URL()))
	where.User = nil
	env := map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": where.String(),
		"IDEMSK_STORE_SECRET_ARN": apptest.SecretARN}
	f := apptest.MustStart(t, env, apptest.Returning("", nil), redis.Store())
	defer f.Close()
	f.Settle(t)
	apptest.Equal(t, "reads", secrets.Count(), 1)

	do("ACL", "SETUSER", "app", "resetpass", ">two")
	do("CLIENT", "KILL", "USER", "app")
	secrets.Hold(`{"username":"app","password":"two"}`)
	f.Settle(t)
	apptest.Equal(t, "reads", secrets.Count(), 2)
}

func TestErrorsDoNotContainTheRedisPassword(t *testing.T) {
	for _, env := range []map[string]string{
		{"IDEMSK_STORE": "redis"},
		{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": "redis://u:hush@h:port"},
		{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": "http://u:hush@h"},
		{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": "redis://u:hush@h/1?cluster=true"},
		{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": "redis://u:hush@h", "IDEMSK_TABLE": "my keys"},
	} {
		f, err := apptest.Start(t, env, apptest.Returning("", nil), redis.Store())
		if err == nil || strings.Contains(err.Error()+f.Stderr.String(), "hush") {
			t.Errorf("%v: error %v; want one without the password", env, err)
		}
	}
}

// wantCompleted checks that a key is completed at the server.
func wantCompleted(t *testing.T, server *redisserver.Server, prefix, key string) {
	t.Helper()
	client := apptest.Must(redisstore.NewClient(server.URL()))
	defer client.Close()
	entry, err := apptest.Must(redisstore.New(client, redisstore.Config{Prefix: prefix})).Get(t.Context(), key)
	if err != nil || entry.Status != store.StatusCompleted {
		t.Errorf("%s: %v, %v; want it completed", key, entry.Status, err)
	}
}
