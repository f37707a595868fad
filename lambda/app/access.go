//go:build postgres || redis

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// scheme is what is particular to a kind of server.
type scheme struct {
	names    []string // of its URLs
	want     string   // the form of its URLs, for messages
	composed string   // of the URL that is made of a secret's host and port
	options  string   // the query of that URL
}

// readAccess reads where the store's server is. Neither the URL nor the secret is repeated in a message: they hold passwords.
func readAccess(v *Vars, c *Config, s *scheme) {
	if c.StoreSecretARN != "" && !isSecretARN(c.StoreSecretARN) {
		v.Fail("IDEMSK_STORE_SECRET_ARN", c.StoreSecretARN, "the ARN of a secret, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
	}
	if c.StoreURL == "" && c.StoreSecretARN == "" {
		v.FailSecret("IDEMSK_STORE_URL", s.want+", or IDEMSK_STORE_SECRET_ARN for a secret that holds it")
	}
}

func isSecretARN(arn string) bool {
	parts := strings.SplitN(arn, ":", 7) //nolint:mnd // arn:partition:service:region:account:secret:name
	return len(parts) == 7 && parts[0] == "arn" && parts[2] == "secretsmanager" && parts[5] == "secret" && parts[6] != ""
}

// access is how the store's server is reached.
type access struct {
	url    string  // with the credentials of the start in it
	secret *secret // nil if there are no others than those
}

// access reads the secret, if there is one.
func (b *Base) access(ctx context.Context, s *scheme) (access, error) {
	if b.Config.StoreSecretARN == "" {
		return access{url: b.Config.StoreURL}, nil
	}
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return access{}, err
	}
	sec := newSecret(awsCfg, b.Config.StoreSecretARN)
	content, err := sec.read(ctx)
	if err != nil {
		return access{}, err
	}
	full, err := content.url(b.Config.StoreURL, s)
	if err != nil {
		return access{}, fmt.Errorf("the secret %s: %w", b.Config.StoreSecretARN, err)
	}
	return access{url: full, secret: sec}, nil
}

var (
	errTwoServers = errors.New("it holds a URL, and IDEMSK_STORE_URL is set too: leave that out, or keep only username and password in the secret")
	errNoServer   = errors.New("it names no server: add url, or host, or set IDEMSK_STORE_URL to the server without credentials")
	errNoPassword = errors.New("it has no password: want a URL, or JSON with url, or with username and password")
)

// url returns where the server is, with user and password.
func (c *content) url(base string, s *scheme) (string, error) {
	text := c.URL
	switch {
	case base != "" && c.URL != "":
		return "", errTwoServers
	case base != "":
		text = base
	case c.URL == "" && c.Host == "":
		return "", errNoServer
	case c.URL == "":
		text = c.compose(s)
	}
	u, err := url.Parse(text) // whose error has the URL in it
	if err != nil || u.Host == "" || !s.has(u.Scheme) {
		return "", fmt.Errorf("the server's URL can't be read: want %s, with special characters of user and password as %%XX", s.want)
	}
	who := c.login(u.User)
	if who.password == "" {
		return "", errNoPassword
	}
	u.User = url.UserPassword(who.user, who.password)
	return u.String(), nil
}

// compose makes a URL of what a secret of RDS has. It wants TLS.
func (c *content) compose(s *scheme) string {
	host := c.Host
	if c.Port != "" {
		host = net.JoinHostPort(c.Host, c.Port.String())
	}
	u := url.URL{Scheme: s.composed, Host: host, Path: "/" + c.DBName, RawQuery: s.options}
	return u.String()
}

func (s *scheme) has(name string) bool {
	for _, n := range s.names {
		if n == name {
			return true
		}
	}
	return false
}
