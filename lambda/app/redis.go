//go:build redis

package app

import (
	"cmp"
	"context"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
)

// redisState is how the server is reached, for the store's client and the handler's.
type redisState struct{ where *access }

func redisScheme() *scheme {
	return &scheme{names: []string{"redis", "rediss"}, want: "redis://user:password@host:port/database, or rediss:// for TLS", composed: "rediss"}
}

func readRedis(v *Vars, c *Config) {
	c.Table = v.String("IDEMSK_TABLE", redisstore.DefaultPrefix)
	if !redisstore.ValidPrefix(c.Table) {
		v.Fail("IDEMSK_TABLE", c.Table, "for Redis a prefix of 1 to 128 letters, digits, '_', '.', ':' or '-'")
	}
	readAccess(v, c, redisScheme())
}

// openRedis returns a store in Redis, Valkey, or a cluster of either.
func (b *Base) openRedis(ctx context.Context) (store.Store, error) {
	client, err := b.Redis(ctx)
	if err != nil {
		return nil, err
	}
	st, err := redisstore.New(client, redisstore.Config{Prefix: b.Config.Table, MaxClockSkew: cmp.Or(b.Config.MaxClockSkew, -1)})
	if err != nil {
		return nil, err
	}
	return b.checkedRedis(ctx, st)
}

// Redis returns a client of the store's server, for a handler that keeps something there too. It is closed with the function.
func (b *Base) Redis(ctx context.Context, options ...func(*redis.UniversalOptions)) (redis.UniversalClient, error) {
	if b.redis.where == nil {
		where, err := b.access(ctx, redisScheme())
		if err != nil {
			return nil, err
		}
		b.redis.where = &where
	}
	s := b.redis.where.secret
	client, err := redisstore.NewClient(b.redis.where.url, append(options, func(o *redis.UniversalOptions) {
		if s != nil {
			atStart := login{user: o.Username, password: o.Password}
			o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
				l, err := s.login(ctx, atStart)
				return l.user, l.password, err
			}
		}
	})...)
	if err != nil {
		return nil, err
	}
	if s != nil {
		client.AddHook(noticeRefusal{s})
	}
	b.onClose(func() { _ = client.Close() }) // what has not been answered by then is sent again by another
	return client, nil
}

// noticeRefusal has the secret read again after the server refused its login.
type noticeRefusal struct{ secret *secret }

func (n noticeRefusal) notice(err error) error {
	if redis.HasErrorPrefix(err, "WRONGPASS") {
		n.secret.refuse()
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
