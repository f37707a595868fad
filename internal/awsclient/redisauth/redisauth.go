// Package redisauth lets a client of Redis log in to ElastiCache and MemoryDB by IAM. The password is a
// presigned request that is valid for 15 minutes, as these pages describe it:
//
//	https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/auth-iam.html
//	https://docs.aws.amazon.com/memorydb/latest/devguide/auth-iam.html
package redisauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// parameter is the parameter of a server's URL that has the ARN of the cache.
const parameter = "iam"

// kinds are the caches that the store can use: by service, the part of their ARN before the name, and that of
// a user's.
var kinds = map[string]struct{ cache, user string }{
	"elasticache": {"replicationgroup:", "user:"},
	"memorydb":    {"cluster/", "user/"},
}

// IAM is a user of a cache who logs in by IAM.
type IAM struct {
	user  string
	cache arn.ARN
	name  string // of the cache
}

// Cut removes the parameter iam from the URL of a server, and returns the login that it describes:
// rediss://user@host:port?iam=ARN, with the ARN of a replication group of ElastiCache or of a cluster of
// MemoryDB. Without the parameter it returns nil and the URL as it is. Errors say what a URL must have, and
// contain no password.
func Cut(rawURL string) (*IAM, string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, rawURL, nil //nolint:nilerr // the store's client says what is wrong with the URL
	}
	query := u.Query()
	if !query.Has(parameter) {
		return nil, rawURL, nil
	}
	i := &IAM{user: u.User.Username()}
	_, password := u.User.Password()
	switch {
	case u.Scheme != "rediss":
		return nil, "", errors.New("rediss:// with iam, which needs TLS")
	case i.user == "" || password:
		return nil, "", errors.New("a user without a password with iam: rediss://USER@HOST:PORT?iam=ARN")
	case query.Has("sentinel"):
		return nil, "", errors.New("no sentinel with iam: ElastiCache and MemoryDB have none")
	}
	if err := i.parse(query.Get(parameter)); err != nil {
		return nil, "", err
	}
	query.Del(parameter)
	u.RawQuery = query.Encode()
	return i, u.String(), nil
}

// parse reads the ARN of the cache. It refuses ElastiCache Serverless, whose eviction policy can't be set.
func (i *IAM) parse(text string) (err error) {
	i.cache, err = arn.Parse(text)
	kind, known := kinds[i.cache.Service]
	name, found := strings.CutPrefix(i.cache.Resource, kind.cache)
	switch {
	case strings.HasPrefix(i.cache.Resource, "serverlesscache:"):
		return errors.New("no ElastiCache Serverless, which evicts keys: use ElastiCache with nodes, or MemoryDB")
	case err != nil, !known, !found, name == "", i.cache.Region == "":
		return fmt.Errorf("iam=arn:aws:elasticache:REGION:ACCOUNT:replicationgroup:NAME or "+
			"iam=arn:aws:memorydb:REGION:ACCOUNT:cluster/NAME, not iam=%s", text)
	}
	i.name = name
	return nil
}

// Action returns the IAM action that the client needs on the Resources.
func (i *IAM) Action() string { return i.cache.Service + ":Connect" }

// Resources returns the ARNs of the cache and of the user. In ElastiCache the user's ID equals the name.
func (i *IAM) Resources() []string {
	user := i.cache
	user.Resource = kinds[user.Service].user + i.user
	return []string{i.cache.String(), user.String()}
}

// lookupTimeout bounds the search for AWS credentials.
const lookupTimeout = 5 * time.Second

// Login returns what tells a client the user and the password of a new connection. Each connection gets a
// token of its own.
func (i *IAM) Login(from aws.CredentialsProvider) func(context.Context) (user, token string, err error) {
	return func(ctx context.Context) (string, string, error) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		found, err := from.Retrieve(ctx)
		if err != nil {
			return "", "", fmt.Errorf("no AWS credentials for the login to %s by IAM: "+
				"give the function or process a role with %s: %w", i.cache, i.Action(), err)
		}
		token, err := i.token(ctx, found, time.Now())
		return i.user, token, err
	}
}

// The lifetime of a token in seconds, the most that AWS allows, and the hash of the empty body of its request.
const (
	tokenSeconds = "900"
	emptyBody    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// token returns the presigned request without its scheme.
func (i *IAM) token(ctx context.Context, c aws.Credentials, now time.Time) (string, error) {
	const scheme = "http://"
	query := url.Values{"Action": {"connect"}, "User": {i.user}, "X-Amz-Expires": {tokenSeconds}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+i.name+"/?"+query.Encode(),
		http.NoBody)
	if err != nil {
		return "", fmt.Errorf("the login to %s by IAM: %w", i.cache, err)
	}
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, c, request, emptyBody, i.cache.Service, i.cache.Region,
		now)
	if err != nil {
		return "", fmt.Errorf("signing the login to %s by IAM: %w", i.cache, err)
	}
	return strings.TrimPrefix(signed, scheme), nil
}
