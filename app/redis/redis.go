// Package redis adds a store in Redis, Valkey, or a cluster of either to a function or a consumer process.
// The main package imports it:
//
//	func main() {
//		lambda.Start(handler, redis.Store())
//	}
//
// The variable IDEMSK_STORE=redis then selects it. With rediss://user@host:port?iam=ARN in IDEMSK_STORE_URL it
// logs in to ElastiCache or MemoryDB with the AWS credentials of the function or process.
package redis

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/internal/storeserver"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient/redisauth"
)

// Store returns the option that adds the store.
func Store() app.Option {
	return app.WithStore(app.Store{Name: app.StoreRedis, Read: read, Open: open})
}

// read reads the variables. A login by IAM has no secret.
func read(v *app.Vars, c *app.Config) {
	scheme().Read(v, c)
	iam, _, err := redisauth.Cut(c.StoreURL)
	switch {
	case err != nil:
		v.FailSecret("IDEMSK_STORE_URL", err.Error())
	case iam != nil && c.StoreSecretARN != "":
		v.Fail("IDEMSK_STORE_SECRET_ARN", c.StoreSecretARN,
			"none with iam in IDEMSK_STORE_URL, which uses no secret")
	}
}

func scheme() *storeserver.Scheme {
	return &storeserver.Scheme{
		Names: []string{"redis", "rediss"},
		Want:  "redis://user:password@host:port/database, or rediss:// for TLS", Composed: "rediss",
		Table: redisstore.DefaultPrefix, ValidTable: redisstore.ValidPrefix,
		WantTable: "for Redis a prefix of 1 to 128 letters, digits, '_', '.', ':' or '-'",
	}
}

func open(ctx context.Context, b *app.Base) (store.Store, error) {
	client, err := Client(ctx, b)
	if err != nil {
		return nil, err
	}
	st, err := redisstore.New(client, redisstore.Config{Prefix: b.Config.Table,
		MaxClockSkew: cmp.Or(b.Config.MaxClockSkew, -1)})
	if err != nil {
		return nil, err
	}
	return checked(ctx, b, st)
}

// Client returns a client of the store's server, for a handler that keeps its own data there. It is closed
// with the function. If IDEMSK_STORE_SECRET_ARN is set, each client reads the secret.
func Client(ctx context.Context, b *app.Base,
	options ...func(*redis.UniversalOptions)) (redis.UniversalClient, error) {
	where, err := storeserver.Find(ctx, b, scheme())
	if err != nil {
		return nil, err
	}
	iam, server, err := redisauth.Cut(where.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL of the store: want %w", err)
	}
	if iam != nil {
		awsCfg, err := b.AWS(ctx)
		if err != nil {
			return nil, err
		}
		options = append(options, loginByIAM(iam, awsCfg.Credentials))
	}
	s := where.Secret
	if s != nil {
		options = append(options, loginBySecret(s))
	}
	client, err := redisstore.NewClient(server, options...)
	if err != nil {
		return nil, err
	}
	if s != nil {
		client.AddHook(noticeRefusal{s})
	}
	b.OnClose(func() { _ = client.Close() }) // unanswered commands are retried by other connections
	return client, nil
}

// connectionLife is how long a connection is used that logged in by IAM. AWS closes it after 12 hours.
const connectionLife = 11 * time.Hour

func loginByIAM(iam *redisauth.IAM, from aws.CredentialsProvider) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) {
		o.CredentialsProviderContext = iam.Login(from)
		if o.ConnMaxLifetime <= 0 || o.ConnMaxLifetime > connectionLife {
			o.ConnMaxLifetime = connectionLife
		}
	}
}

func loginBySecret(s *storeserver.Secret) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) {
		atStart := storeserver.Login{User: o.Username, Password: o.Password}
		o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
			l, err := s.Login(ctx, atStart)
			return l.User, l.Password, err
		}
	}
}

// noticeRefusal is a hook that makes the secret be read again after the server refused the login.
type noticeRefusal struct{ secret *storeserver.Secret }

func (n noticeRefusal) notice(err error) error {
	if redis.HasErrorPrefix(err, "WRONGPASS") {
		n.secret.Refuse()
	}
	return err
}

// DialHook implements redis.Hook.
func (n noticeRefusal) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (n noticeRefusal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return n.notice(next(ctx, cmd)) }
}

// ProcessPipelineHook implements redis.Hook.
func (n noticeRefusal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return n.notice(next(ctx, cmds)) }
}
