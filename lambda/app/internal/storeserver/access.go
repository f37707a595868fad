// Package storeserver is what the stores on a server of their own have in common in a function: where the server is, the secret
// with its password, and the look at it when the function starts.
package storeserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/lambda/app"
)

// Scheme is what is particular to a kind of server.
type Scheme struct {
	Names    []string // of its URLs
	Want     string   // the form of its URLs, for messages
	Composed string   // of the URL that is made of a secret's host and port
	Options  string   // the query of that URL
}

// ReadAccess reads where the store's server is. Neither the URL nor the secret is repeated in a message: they hold passwords.
func ReadAccess(v *app.Vars, c *app.Config, s *Scheme) {
	if c.StoreSecretARN != "" && !isSecretARN(c.StoreSecretARN) {
		v.Fail("IDEMSK_STORE_SECRET_ARN", c.StoreSecretARN, "the ARN of a secret, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
	}
	if c.StoreURL == "" && c.StoreSecretARN == "" {
		v.FailSecret("IDEMSK_STORE_URL", s.Want+", or IDEMSK_STORE_SECRET_ARN for a secret that holds it")
	}
}

func isSecretARN(arn string) bool {
	parts := strings.SplitN(arn, ":", 7) //nolint:mnd // arn:partition:service:region:account:secret:name
	return len(parts) == 7 && parts[0] == "arn" && parts[2] == "secretsmanager" && parts[5] == "secret" && parts[6] != ""
}

// Access is how the store's server is reached.
type Access struct {
	URL    string  // with the credentials of the start in it
	Secret *Secret // nil if there are no others than those
}

// Find says how the store's server is reached. It reads the secret, if there is one.
func Find(ctx context.Context, b *app.Base, s *Scheme) (Access, error) {
	if b.Config.StoreSecretARN == "" {
		return Access{URL: b.Config.StoreURL}, nil
	}
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return Access{}, err
	}
	sec := newSecret(awsCfg, b.Config.StoreSecretARN)
	content, err := sec.read(ctx)
	if err != nil {
		return Access{}, err
	}
	full, err := content.url(b.Config.StoreURL, s)
	if err != nil {
		return Access{}, fmt.Errorf("the secret %s: %w", b.Config.StoreSecretARN, err)
	}
	return Access{URL: full, Secret: sec}, nil
}

var (
	errTwoServers = errors.New("it holds a URL, and IDEMSK_STORE_URL is set too: leave that out, or keep only username and password in the secret")
	errNoServer   = errors.New("it names no server: add url, or host, or set IDEMSK_STORE_URL to the server without credentials")
	errNoPassword = errors.New("it has no password: want a URL, or JSON with url, or with username and password")
)

// url returns where the server is, with user and password.
func (c *content) url(base string, s *Scheme) (string, error) {
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
		return "", fmt.Errorf("the server's URL can't be read: want %s, with special characters of user and password as %%XX", s.Want)
	}
	who := c.login(u.User)
	if who.Password == "" {
		return "", errNoPassword
	}
	u.User = url.UserPassword(who.User, who.Password)
	return u.String(), nil
}

// compose makes a URL of what a secret of RDS has. It wants TLS.
func (c *content) compose(s *Scheme) string {
	host := c.Host
	if c.Port != "" {
		host = net.JoinHostPort(c.Host, c.Port.String())
	}
	u := url.URL{Scheme: s.Composed, Host: host, Path: "/" + c.DBName, RawQuery: s.Options}
	return u.String()
}

func (s *Scheme) has(name string) bool { return slices.Contains(s.Names, name) }
