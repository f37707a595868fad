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

// Ledger is the table, by its name.
type Ledger string

func (l Ledger) sql() string { return pgx.Identifier{string(l)}.Sanitize() }

// Create makes the table if it is not there.
func (l Ledger) Create(ctx context.Context, db DB) error {
	_, err := db.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+l.sql()+` (
		account text PRIMARY KEY, balance bigint NOT NULL, bookings bigint NOT NULL)`)
	return l.explain("creating", err)
}

// Drop removes the table if it is there.
func (l Ledger) Drop(ctx context.Context, db DB) error {
	_, err := db.Exec(ctx, `DROP TABLE IF EXISTS `+l.sql())
	return l.explain("removing", err)
}

// ErrRefused says that the database refuses a booking for what is in it, and would refuse it again: the balance would not fit,
// say, or the account's name is no text that it can keep.
var ErrRefused = errors.New("the booking is refused, and will be again")

// Add adds an amount in minor units to a balance, and returns the new one. Until the transaction ends, others who book on the
// same account wait. An error that the booking alone is to blame for is ErrRefused.
func (l Ledger) Add(ctx context.Context, db DB, account string, amount int64) (balance int64, err error) {
	err = db.QueryRow(ctx, `INSERT INTO `+l.sql()+` AS l (account, balance, bookings) VALUES ($1, $2, 1)
		ON CONFLICT (account) DO UPDATE SET balance = l.balance + excluded.balance, bookings = l.bookings + 1
		RETURNING balance`, account, amount).Scan(&balance)
	if refuses(err) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return balance, l.explain("booking in", err)
}

// refuses reports whether the server has refused a statement for its values. Class 22 is for data that is none, or out of range,
// class 23 for what a constraint of the table forbids, and 54000 for an account too long for the index.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func refuses(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (strings.HasPrefix(said.Code, "22") || strings.HasPrefix(said.Code, "23") || said.Code == "54000")
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
		hint = " (it does not exist: run idemsk migrate --ledger)"
	}
	return fmt.Errorf("%s the ledger %s: %w%s", what, string(l), err, hint)
}
