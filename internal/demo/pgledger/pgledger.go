// Package pgledger keeps the balances of the example function in a table of a PostgreSQL database.
package pgledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is a connection, a pool of them, or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Ledger is the name of the table.
type Ledger string

func (l Ledger) sql() string { return pgx.Identifier{string(l)}.Sanitize() }

// Create creates the table if it does not exist.
func (l Ledger) Create(ctx context.Context, db DB) error {
	_, err := db.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+l.sql()+` (
		account text PRIMARY KEY, balance bigint NOT NULL, bookings bigint NOT NULL)`)
	return l.explain("creating", err)
}

// Drop drops the table if it exists.
func (l Ledger) Drop(ctx context.Context, db DB) error {
	_, err := db.Exec(ctx, `DROP TABLE IF EXISTS `+l.sql())
	return l.explain("removing", err)
}

// ErrRefused means that the database refuses a booking because of its values, and would refuse a retry: the
// balance would overflow, or the account's name is not a valid text.
var ErrRefused = errors.New("the booking is refused, and a retry would be refused too")

// Add adds an amount in minor units to a balance, and returns the new balance. Other bookings on the account
// wait until the transaction ends. An error that the booking's values cause is ErrRefused.
func (l Ledger) Add(ctx context.Context, db DB, account string, amount int64) (balance int64, err error) {
	err = db.QueryRow(ctx, `INSERT INTO `+l.sql()+` AS l (account, balance, bookings) VALUES ($1, $2, 1)
		ON CONFLICT (account) DO UPDATE SET balance = l.balance + excluded.balance, bookings = l.bookings + 1
		RETURNING balance`, account, amount).Scan(&balance)
	if refuses(err) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return balance, l.explain("booking in", err)
}

// refuses reports whether the server refused a statement for its values: class 22 is invalid data or a value
// out of range, class 23 a violated constraint, and 54000 an account too long for the index.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func refuses(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (strings.HasPrefix(said.Code, "22") ||
		strings.HasPrefix(said.Code, "23") || said.Code == "54000")
}

// Balances returns all balances by account.
func (l Ledger) Balances(ctx context.Context, db DB) (map[string]int64, error) {
	rows, err := db.Query(ctx, `SELECT account, balance FROM `+l.sql())
	if err != nil {
		return nil, l.explain("reading", err)
	}
	balances := make(map[string]int64)
	var account string
	var balance int64
	_, err = pgx.ForEachRow(rows, []any{&account, &balance}, func() error {
		balances[account] = balance
		return nil
	})
	return balances, l.explain("reading", err)
}

const noSuchTable = "42P01"

func (l Ledger) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	hint := ""
	if said := new(pgconn.PgError); errors.As(err, &said) && said.Code == noSuchTable {
		hint = " (it does not exist: go run ./lambda/handler/postgres/migrate creates it)"
	}
	return fmt.Errorf("%s the ledger %s: %w%s", what, string(l), err, hint)
}
