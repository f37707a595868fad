package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/idemsk/idemsk/idem"
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
// for TLS. With ?cluster=true it returns a client of the server's cluster. The timeouts fit the duration of
// an invocation. NewClient does not connect; see Check. It returns idem.ErrInvalidConfig (wrapped) if rawURL
// is invalid. The caller closes the client.
//
// The client retries a timed-out attempt over a new connection. If the script of the first attempt has run,
// the retry recognises its own write (rule 5 of package store).
func NewClient(rawURL string, options ...func(*redis.UniversalOptions)) (redis.UniversalClient, error) {
	opt, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w: IDEMSK_STORE_URL: want redis://user:password@host:port/database, or rediss:// for TLS, "+
			"with ?cluster=true for a cluster: %w", idem.ErrInvalidConfig, err)
	}
	for _, o := range options {
		o(opt)
	}
	made := conns{open: make(map[*conn]struct{})}
	made.option(opt)
	return redis.NewUniversalClient(opt), nil
}

var errURL = errors.New("it is not a URL; special characters of a user or a password must be written as %XX")

func parseURL(rawURL string) (*redis.UniversalOptions, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errURL // the parser's message may contain parts of the password
	}
	query := u.Query()
	cluster := false
	if text := query.Get("cluster"); text != "" {
		if cluster, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("cluster=%q: want true or false", text)
		}
	}
	query.Del("cluster")
	u.RawQuery = query.Encode()
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	if cluster && o.DB != 0 {
		return nil, fmt.Errorf("database %d: a cluster has only database 0", o.DB)
	}
	return &redis.UniversalOptions{
		Addrs: []string{o.Addr}, IsClusterMode: cluster, DB: o.DB, Username: o.Username, Password: o.Password,
		TLSConfig:  o.TLSConfig,
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
