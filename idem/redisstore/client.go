package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/text/redact"
)

// The timeouts of one attempt, the number of attempts, and the bounds of the backoff, unless the URL sets
// them.
const (
	connectTimeout = 2 * time.Second
	attemptTimeout = time.Second
	maxAttempts    = 4
	firstBackoff   = 25 * time.Millisecond
	maxBackoff     = 300 * time.Millisecond
)

// NewClient returns a client of the server at rawURL: redis://user:password@host:port/database, or rediss://
// for TLS. With ?cluster=true it returns a client of the server's cluster. With ?sentinel=NAME host and port
// are those of a Sentinel, &addr=host:port those of another one, and the client follows the primary of this
// name; sentinel_username and sentinel_password are for the Sentinels. The timeouts fit the duration of an
// invocation. NewClient does not connect; see Check. It returns idem.ErrInvalidConfig (wrapped) if rawURL is
// invalid. The caller closes the client.
//
// The client retries a timed-out attempt over a new connection. If the script of the first attempt has run,
// the retry recognises its own write (rule 5 of package store).
func NewClient(rawURL string, options ...func(*redis.UniversalOptions)) (redis.UniversalClient, error) {
	opt, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w: IDEMSK_STORE_URL: want redis://user:password@host:port/database, or rediss:// for TLS, "+
			"with ?cluster=true for a cluster, or a Sentinel's address with ?sentinel=NAME: %w", idem.ErrInvalidConfig, err)
	}
	for _, o := range options {
		o(opt)
	}
	made := conns{open: make(map[*conn]struct{})}
	made.option(opt)
	return redis.NewUniversalClient(opt), nil
}

func parseURL(rawURL string) (*redis.UniversalOptions, error) {
	u, err := redact.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	cluster := false
	if text := query.Get("cluster"); text != "" {
		if cluster, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("cluster=%q: want true or false", text)
		}
	}
	query.Del("cluster")
	watch, err := sentinelsOf(u, query)
	if err != nil {
		return nil, err
	}
	if cluster && watch.name != "" {
		return nil, fmt.Errorf("sentinel=%q and cluster=true: want one of them", watch.name)
	}
	u.RawQuery = query.Encode()
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	if cluster && o.DB != 0 {
		return nil, fmt.Errorf("database %d: a cluster has only database 0", o.DB)
	}
	if watch.name != "" && o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each host has its own
	}
	return &redis.UniversalOptions{
		Addrs: append([]string{o.Addr}, watch.others...), IsClusterMode: cluster,
		MasterName: watch.name, SentinelUsername: watch.username, SentinelPassword: watch.password,
		DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		ClientName: o.ClientName, Protocol: o.Protocol,
		MaxRetries:      cmp.Or(o.MaxRetries, maxAttempts-1),
		MinRetryBackoff: cmp.Or(o.MinRetryBackoff, firstBackoff),
		MaxRetryBackoff: cmp.Or(o.MaxRetryBackoff, maxBackoff),
		// the attempts are counted above
		DialTimeout: cmp.Or(o.DialTimeout, connectTimeout), DialerRetries: 1,
		ReadTimeout:  cmp.Or(o.ReadTimeout, attemptTimeout),
		WriteTimeout: cmp.Or(o.WriteTimeout, attemptTimeout), ContextTimeoutEnabled: true,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MinIdleConns: o.MinIdleConns,
		MaxIdleConns:   o.MaxIdleConns,
		MaxActiveConns: o.MaxActiveConns, ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime:          o.ConnMaxLifetime,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

// sentinels are the Sentinels of a URL. The zero value stands for none.
type sentinels struct {
	name               string   // of the primary
	others             []string // addresses, besides that of the URL
	username, password string
}

const sentinelPort = "26379"

// sentinelsOf removes what concerns Sentinels from a URL's query, and adds the default port of Sentinels to
// its address.
func sentinelsOf(u *url.URL, query url.Values) (sentinels, error) {
	s := sentinels{name: query.Get("sentinel"), others: query["addr"],
		username: query.Get("sentinel_username"), password: query.Get("sentinel_password")}
	if s.name == "" && (s.others != nil || s.username != "" || s.password != "") {
		return s, errors.New("addr, sentinel_username and sentinel_password: want sentinel=NAME with them")
	}
	for _, name := range []string{"sentinel", "addr", "sentinel_username", "sentinel_password"} {
		query.Del(name)
	}
	if s.name == "" {
		return s, nil
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), sentinelPort)
	}
	for i, addr := range s.others {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			s.others[i] = net.JoinHostPort(addr, sentinelPort)
		}
	}
	return s, nil
}
