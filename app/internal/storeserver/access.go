// Package storeserver has the code that the stores with a server of their own share in a function: the
// server's address, the secret with the password, and the check of the server at the start of the function.
package storeserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/app"
)

// Scheme describes one kind of server.
type Scheme struct {
	Names    []string // the schemes of its URLs
	Want     string   // the form of its URLs, for messages
	Composed string   // the scheme of a URL built from a secret's host and port
	Options  string   // the query of that URL

	Table      string // the default of IDEMSK_TABLE
	ValidTable func(name string) bool
	WantTable  string // the form of a table's name, for messages
}

// Read reads the table's name and the address of the store's server. Errors contain neither the URL nor the
// secret, because they may contain passwords.
func (s *Scheme) Read(v *app.Vars, c *app.Config) {
	if c.Table = v.String("IDEMSK_TABLE", s.Table); !s.ValidTable(c.Table) {
		v.Fail("IDEMSK_TABLE", c.Table, s.WantTable)
	}
	if c.StoreSecretARN != "" && !isSecretARN(c.StoreSecretARN) {
		v.Fail("IDEMSK_STORE_SECRET_ARN", c.StoreSecretARN,
			"the ARN of a secret, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
	}
	if c.StoreURL == "" && c.StoreSecretARN == "" {
		v.FailSecret("IDEMSK_STORE_URL", s.Want+", or IDEMSK_STORE_SECRET_ARN for a secret that contains it")
	}
}

func isSecretARN(arn string) bool {
	parts := strings.SplitN(arn, ":", 7) //nolint:mnd // arn:partition:service:region:account:secret:name
	return len(parts) == 7 && parts[0] == "arn" && parts[2] == "secretsmanager" && parts[5] == "secret" &&
		parts[6] != ""
}

// Access is the address of the store's server, with credentials.
type Access struct {
	URL    string  // includes the credentials that were valid at the start
	Secret *Secret // nil if the credentials never change
}

// Find returns the access to the store's server. It reads the secret, if there is one.
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
	errTwoServers = errors.New("it contains a URL, and IDEMSK_STORE_URL is set too: unset the variable, or keep only username and password in the secret")
	errNoServer   = errors.New("it names no server: add url, or host, or set IDEMSK_STORE_URL to the server without credentials")
	errNoPassword = errors.New("it has no password: want a URL, or JSON with url, or with username and password")
)

// url returns the server's URL with user and password.
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
	u, err := url.Parse(text) // its error contains the URL
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

// compose builds a URL from the fields of a secret of RDS. The URL requires TLS.
func (c *content) compose(s *Scheme) string {
	host := c.Host
	if c.Port != "" {
		host = net.JoinHostPort(c.Host, c.Port.String())
	}
	u := url.URL{Scheme: s.Composed, Host: host, Path: "/" + c.DBName, RawQuery: s.Options}
	return u.String()
}

func (s *Scheme) has(name string) bool { return slices.Contains(s.Names, name) }
