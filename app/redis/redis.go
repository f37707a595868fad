// Package redis adds a store in Redis, Valkey, or a cluster of either to a function or a consumer process.
// The main package imports it:
//
//	func main() {
//		lambda.Start(handler, redis.Store())
//	}
//
// The variable IDEMSK_STORE=redis then selects it.
package redis

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/internal/storeserver"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
)

// Store returns the option that adds the store.
func Store() app.Option {
	return app.WithStore(app.Store{Name: app.StoreRedis, Read: scheme().Read, Open: open})
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
	s := where.Secret
	client, err := redisstore.NewClient(where.URL, append(options, func(o *redis.UniversalOptions) {
		if s != nil {
			atStart := storeserver.Login{User: o.Username, Password: o.Password}
			o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
				l, err := s.Login(ctx, atStart)
				return l.User, l.Password, err
			}
		}
	})...)
	if err != nil {
		return nil, err
	}
	if s != nil {
		client.AddHook(noticeRefusal{s})
	}
	b.OnClose(func() { _ = client.Close() }) // unanswered commands are retried by other connections
	return client, nil
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
