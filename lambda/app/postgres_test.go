//go:build postgres

package app

import (
	"context"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/pgserver"
	"github.com/idemsk/idemsk/lambda/msk"
)

func TestAFunctionOnPostgreSQL(t *testing.T) {
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	env := map[string]string{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": server.URL(), "IDEMSK_TABLE": "keys"}
	calls := 0
	f := mustStart(t, env, func(context.Context, msk.Record) ([]byte, error) {
		calls++
		return nil, nil
	})
	defer f.Close()
	if _, err := f.Invoke(t.Context(), []byte(event)); err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("without the table: error %v; want one that names it", err)
	}
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, "keys"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := f.Invoke(t.Context(), []byte(event))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "answer", string(out), `{"batchItemFailures":[]}`)
	}
	equal(t, "calls", calls, 1)
}

func TestThePasswordIsNotRepeated(t *testing.T) {
	for _, env := range []map[string]string{
		{"IDEMSK_STORE": "postgres"},
		{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": "postgres://u:secret@:port/x"},
		{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": "postgres://u:secret@h/x", "IDEMSK_TABLE": "my-schema.my.table"},
	} {
		_, err := start(t, env, returning("", nil))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: error %v; want one without the password", env, err)
		}
	}
}
