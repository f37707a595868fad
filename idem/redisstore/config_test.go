//go:build servers

package redisstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
)

func TestNewNamesEveryInvalidField(t *testing.T) {
	_, err := redisstore.New(nil, redisstore.Config{Prefix: "a{b}", MaxClockSkew: -2})
	if !errors.Is(err, idem.ErrInvalidConfig) {
		t.Errorf("%v; want ErrInvalidConfig", err)
	}
	wantError(t, err, "client is nil", "Prefix", "MaxClockSkew")
	var none *redis.Client
	_, err = redisstore.New(none, redisstore.Config{})
	wantError(t, err, "client is nil")
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	_, err = redisstore.New(ring, redisstore.Config{})
	wantError(t, err, "Ring")
	st, err := redisstore.New(newClient(t, server.URL()), redisstore.Config{})
	if err != nil || st.Prefix() != redisstore.DefaultPrefix ||
		st.MaxClockSkew() != store.DefaultMaxClockSkew || st.BatchSize() != 100 {
		t.Errorf("%v; prefix %q, skew %v, batch %d", err, st.Prefix(), st.MaxClockSkew(), st.BatchSize())
	}
}

func TestNewClientNamesTheFaultOfAURL(t *testing.T) {
	for url, text := range map[string]string{
		"":                                          "invalid URL scheme",
		"localhost:6379":                            "invalid URL scheme",
		"http://localhost":                          "invalid URL scheme",
		"redis://u:sec/ret@localhost":               "%XX",
		"redis://localhost/x":                       "invalid database number",
		"redis://localhost?cluster=perhaps":         "cluster",
		"redis://localhost/3?cluster=true":          "database 3",
		"redis://localhost?no_such_option=17":       "unexpected option",
		"redis://localhost?addr=other":              "sentinel=NAME",
		"redis://localhost?sentinel_password=sec":   "sentinel=NAME",
		"redis://localhost?sentinel=a&cluster=true": "one of them",
	} {
		_, err := redisstore.NewClient(url)
		if !errors.Is(err, idem.ErrInvalidConfig) {
			t.Errorf("%q: %v; want ErrInvalidConfig", url, err)
		}
		wantError(t, err, "IDEMSK_STORE_URL", text)
		if strings.Contains(err.Error(), "sec") {
			t.Errorf("%q: %v has a part of the password", url, err)
		}
	}
}

func TestNewClientHasShortTimeouts(t *testing.T) {
	plain, ok := newClient(t, "redis://localhost/3").(*redis.Client)
	if !ok {
		t.Fatal("want a client of one server")
	}
	if o := plain.Options(); o.DB != 3 || o.ReadTimeout != redisstore.AttemptTimeout ||
		o.MaxRetries != redisstore.MaxAttempts-1 || !o.ContextTimeoutEnabled {
		t.Errorf("%+v", o)
	}
	own := newClient(t, "rediss://localhost?read_timeout=3s&max_retries=7").(*redis.Client).Options()
	if own.ReadTimeout != 3*time.Second || own.MaxRetries != 7 || own.TLSConfig == nil {
		t.Errorf("%+v", own)
	}
	if _, ok := newClient(t, "redis://localhost?cluster=true").(*redis.ClusterClient); !ok {
		t.Error("want a client of a cluster")
	}
}

func TestNewClientFindsSentinels(t *testing.T) {
	var got redis.UniversalOptions
	newClient(t, "rediss://u:p@one/3?sentinel=keys&addr=two&addr=three:7&sentinel_username=s&sentinel_password=q",
		func(o *redis.UniversalOptions) { got = *o })
	if want := []string{"one:26379", "two:26379", "three:7"}; !slices.Equal(got.Addrs, want) {
		t.Errorf("the Sentinels are %q; want %q", got.Addrs, want)
	}
	if got.MasterName != "keys" || got.DB != 3 || got.Username != "u" || got.Password != "p" ||
		got.SentinelUsername != "s" || got.SentinelPassword != "q" || got.TLSConfig.ServerName != "" {
		t.Errorf("%+v", got)
	}
}
