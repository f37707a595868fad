package lambda

import (
	"context"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

// A store that was not passed is refused: the error describes how the program adds it.
func TestStoreThatWasNotPassedIsRefused(t *testing.T) {
	const url = "postgres://u:hush@h/d"
	for name, tc := range map[string]struct {
		env   map[string]string
		wants []string
	}{
		"PostgreSQL": {map[string]string{"IDEMSK_STORE": "postgres"},
			[]string{`IDEMSK_STORE is "postgres"`, "app/postgres", "postgres.Store()"}},
		"Redis": {map[string]string{"IDEMSK_STORE": "redis"},
			[]string{`IDEMSK_STORE is "redis"`, "app/redis", "redis.Store()"}},
		"its URL alone": {map[string]string{"IDEMSK_STORE_URL": url},
			[]string{"IDEMSK_STORE_URL", "want postgres or redis"}},
		"PostgreSQL and": {map[string]string{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": url},
			[]string{"app/postgres"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := start(t, tc.env, returning("", nil))
			if err == nil {
				t.Fatal("it starts")
			}
			for _, want := range tc.wants {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
					strings.Contains(err.Error(), "hush") {
					t.Errorf("error %v; want one line with %q, without the password", err, want)
				}
			}
		})
	}
}

func TestStoreThatIsPassedIsUsed(t *testing.T) {
	opened, closed := memstore.New(memstore.Config{}), false
	passed := app.WithStore(app.Store{
		Name: app.StoreRedis,
		Read: func(v *app.Vars, c *app.Config) { c.Table = v.String("IDEMSK_TABLE", "mine") },
		Open: func(_ context.Context, b *Base) (store.Store, error) {
			equal(t, "table", b.Config.Table, "mine")
			equal(t, "URL", b.Config.StoreURL, "redis://h")
			b.OnClose(func() { closed = true })
			return opened, nil
		},
	})
	env := map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": "redis://h"}
	build := func(context.Context, *Base) (msk.Handler, error) { return returning("", nil), nil }
	f, err := New(t.Context(), build, vars(env), t.Output(), t.Output(), passed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Invoke(t.Context(), []byte(event)); err != nil {
		t.Error(err)
	}
	entry, err := opened.Get(t.Context(), "ledger#payments#a")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "status", entry.Status, store.StatusCompleted)
	f.Close()
	equal(t, "closed", closed, true)
}
