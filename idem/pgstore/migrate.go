package pgstore

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgmigrate"
)

// The states of a table in which Check returns an error. Each error names the remedy. The first two are
// store.ErrMisconfigured.
var (
	// ErrNoTable means that the table does not exist.
	ErrNoTable = fmt.Errorf("pgstore: %w: the table has not been made", store.ErrMisconfigured)
	// ErrTableOlder means that some migrations have not been applied to the table.
	ErrTableOlder = fmt.Errorf("pgstore: %w: the table is older than this program", store.ErrMisconfigured)
	// ErrTableNewer means that migrations which this program does not know were applied to the table.
	ErrTableNewer = errors.New("pgstore: the table is newer than this program")
)

// oldestServer is the oldest supported version of PostgreSQL, as a server_version_num.
const oldestServer = 150000

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the number of the advisory lock under which migrations run.
const migrationLock = 0x6964656d736b // "idemsk"

func schema() *pgmigrate.Schema {
	return &pgmigrate.Schema{
		Files: migrationFiles, Lock: migrationLock, Command: "idemsk migrate",
		Rename: "set IDEMSK_TABLE to the right one", Before: checkServerOf,
		NoTable: ErrNoTable, Older: ErrTableOlder, Newer: ErrTableNewer,
	}
}

// Migrate creates a table (default DefaultTable), or migrates an existing one to the present version. It
// returns the names of the migrations that it applied, none if the table is up to date. All migrations are
// applied in one transaction. Concurrent calls are safe. No other function of this package changes a schema.
//
// The role needs CREATE on the schema, and must own an existing table.
func Migrate(ctx context.Context, pool *pgxpool.Pool, name string) (applied []string, err error) {
	t, err := pgmigrate.ParseTable(cmp.Or(name, DefaultTable))
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", idem.ErrInvalidConfig, err)
	}
	if applied, err = schema().Migrate(ctx, pool, t); err != nil {
		return nil, fmt.Errorf("pgstore: migrating table %s: %w%s", t, err, hint(err))
	}
	return applied, nil
}

func checkServerOf(ctx context.Context, tx pgx.Tx) error {
	var server int
	if err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(
		&server); err != nil {
		return err
	}
	return checkServer(server)
}

// Check checks the server and the table. It returns all errors that prevent the store from working: the
// server is unreachable, too old or read-only, the database's encoding is not UTF8, or ErrNoTable or
// ErrTableOlder, wrapped.
//
// ErrTableNewer is a warning. Migrations only add to a table, so a program keeps working while a newer one is
// deployed.
func (s *Store) Check(ctx context.Context) error {
	var server int
	var encoding string
	var readOnly bool
	var version int
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
			current_setting('transaction_read_only')::bool`).Scan(&server, &encoding, &readOnly)
	})
	if err != nil {
		return s.complain("check", err)
	}
	errs := []error{checkServer(server)}
	if readOnly {
		errs = append(errs, errors.New("the server is read-only: it is a standby, or its transactions are read-only by default; "+
			"name the primary in IDEMSK_STORE_URL, or all of them with target_session_attrs=read-write"))
	}
	if encoding != "UTF8" {
		errs = append(errs, fmt.Errorf("the database's encoding is %s: want UTF8, as keys are", encoding))
	}
	err = s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) (err error) {
		version, err = pgmigrate.Version(w.Context(), conn, s.table)
		return err
	})
	if err == nil {
		err = schema().Check(s.table, version)
	} else {
		err = fmt.Errorf("%w%s", classified(err), hint(err))
	}
	if errs = append(errs, err); err == nil {
		errs = append(errs, s.checkPermissions(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pgstore: check of table %s: %w", s.table, err)
	}
	return nil
}

// checkPermissions returns an error that names the permissions on the table that the role lacks.
func (s *Store) checkPermissions(ctx context.Context) error {
	var missing []string
	var unadmitted []string // by row-level security: no permissive policy is for the role
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), `SELECT
				coalesce(array_agg(p) FILTER (WHERE NOT has_table_privilege($1, p) AND EXISTS (SELECT FROM pg_attribute
					WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND NOT has_column_privilege($1, attnum, p))), '{}'),
				coalesce(array_agg(p) FILTER (WHERE row_security_active($1) AND NOT EXISTS (SELECT FROM pg_policy, unnest(polroles) AS r
					WHERE polrelid = $1::regclass AND polpermissive AND polcmd IN ('*', c) AND (r = 0 OR pg_has_role(r, 'USAGE')))), '{}')
			FROM (VALUES ('SELECT', 'r'::"char"), ('INSERT', 'a'), ('UPDATE', 'w')) AS v (p, c)`,
			s.table.SQL("")).Scan(&missing, &unadmitted)
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w%s", classified(err), hint(err))
	case len(missing) > 0:
		return fmt.Errorf("%w: the role lacks %s on the table", store.ErrMisconfigured, strings.Join(missing, ", "))
	case len(unadmitted) > 0:
		return fmt.Errorf("%w: the table has row-level security, and no policy that lets the role %s: turn it off, or create a policy for the role",
			store.ErrMisconfigured, strings.Join(unadmitted, ", "))
	}
	return nil
}

func checkServer(version int) error {
	if version < oldestServer {
		return fmt.Errorf("the server is PostgreSQL %d: want %d or later", version/10000, oldestServer/10000)
	}
	return nil
}
