//go:build servers

package outbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// An event that another operator requeues or deletes between the list and the requeue is named, and does not
// stop the command.
func TestEntriesGoneFromPostgreSQLAreNamed(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pgoutbox.Migrate(t.Context(), pool, ""); err != nil {
		t.Fatal(err)
	}
	const n = requeueBatch + 500
	id := func(n int) string { return fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n) }
	if _, err := pool.Exec(t.Context(), `INSERT INTO outbox (id, aggregatetype, parked_at)
		SELECT ('019a7c54-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'credited', now() FROM generate_series(1, $1::int) AS n`, n); err != nil {
		t.Fatal(err)
	}
	box, err := pgoutbox.New(pgoutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for i := range n + 1 { // the first has gone
		entries = append(entries, Entry{ID: id(i)})
	}
	events, problems, err := requeueInPostgres(t.Context(), box, pool, entries)
	if events != n || len(problems) != 1 || !strings.Contains(problems[0].Error(), "1 of 1501 events") ||
		err != nil {
		t.Errorf("%d, %v, %v; want %d, and one named", events, problems, err, n)
	}
	// The first ID recurs, as it can in another partition of a table. Its events are in two batches.
	if _, err := pool.Exec(t.Context(), `ALTER TABLE outbox DROP CONSTRAINT outbox_pkey; UPDATE outbox SET parked_at = now();
		UPDATE outbox SET id = '019a7c54-0000-7000-8000-000000000001' WHERE id = (SELECT max(id::text)::uuid FROM outbox)`); err != nil {
		t.Fatal(err)
	}
	entries[n].ID = id(1)
	events, problems, err = requeueInPostgres(t.Context(), box, pool, entries[1:])
	if events != n || len(problems) != 0 || err != nil {
		t.Errorf("%d, %v, %v; want %d", events, problems, err, n)
	}
}
