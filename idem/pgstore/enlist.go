package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrRows means that an enlisted statement did not change the number of rows that it had to. Nothing was
// committed.
var ErrRows = errors.New("pgstore: the statement did not change the rows that it had to")

// ErrInvalidStatement means that a statement can't be enlisted.
var ErrInvalidStatement = errors.New("pgstore: the statement can't be enlisted")

// Enlist adds a statement to the transaction that completes the key of the handler whose context ctx is. It
// sends no request: the statement is sent when the handler has returned, together with the completion, and
// with the statements and completions of other handlers that have returned by then. All of these are one round
// trip and one transaction. A handler that enlists its writes holds no connection.
//
// A statement that fails, or whose arguments can't be encoded, or a completion that is refused, is taken out:
// nothing of that handler is committed, and the others are. The error of the statement is treated as the
// handler's.
//
// The statement is an INSERT, UPDATE, DELETE, MERGE, SELECT, or one of them with WITH. Its rows are not
// returned. Enlisted statements are executed in the order of Enlist, after those of TxFrom. The arguments must
// not change any more. Enlist returns ErrInvalidStatement (wrapped) for another statement. This error also
// becomes the handler's error, even if the handler ignores it. If there is no transaction (see TxFrom), the error
// is marked idem.Unavailable.
//
// No handler has the settings of another: they are reset (RESET ALL) before and after the statements of each handler,
// and after the COMMIT of TxFrom, also those of the session, and a handler whose statements change the role or leave a
// temporary table commits in a transaction of its own. What the pool's connections begin with is set again, except
// custom settings (app.tenant), which PostgreSQL does not list: a pool sets these in its URL (options) or by ALTER
// ROLE, not in AfterConnect.
func Enlist(ctx context.Context, sql string, args ...any) error {
	return enlist(ctx, statement{sql: sql, args: args, rows: anyRows})
}

// EnlistRows is Enlist of a statement that must change a number of rows, or of a SELECT that must return it,
// for example of the account that is to be open. Otherwise nothing is committed, and orElse is the handler's
// error; with nil it is ErrRows, and the task is retried. An orElse that is marked by idem.Permanent sends the
// task to the dead letters at once. A statement that begins with WITH and changes rows needs a RETURNING clause, and
// can't change rows in its WITH clause. A MERGE needs PostgreSQL 17.
func EnlistRows(ctx context.Context, rows int64, orElse error, sql string, args ...any) error {
	return enlist(ctx, statement{sql: sql, args: args, rows: rows, orElse: orElse})
}

func enlist(ctx context.Context, st statement) error {
	e, err := effectOf(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return errOver
	}
	if st.text, err = e.store.sent.of(st.sql, st.rows); err == nil {
		err = st.checkRewriters()
	}
	if err != nil {
		e.invalid = errors.Join(e.invalid, err)
		return err
	}
	e.enlisted = append(e.enlisted, st)
	return nil
}

// checkRewriters refuses arguments that write another statement: its text would not be checked.
func (st *statement) checkRewriters() error {
	for _, arg := range st.args {
		switch arg.(type) {
		case pgx.NamedArgs, pgx.StrictNamedArgs: // they replace names by numbers
		case pgx.QueryRewriter:
			return fmt.Errorf("%w: its argument %T rewrites it: want pgx.NamedArgs, or the statement as it is sent", ErrInvalidStatement, arg)
		}
	}
	return nil
}

// anyRows is the number of rows of a statement that may change any.
const anyRows = -1

// statement is an enlisted statement.
type statement struct {
	sql    string // of the handler
	text   *sentText
	args   []any
	rows   int64 // that it must change, or anyRows
	orElse error
}

var (
	firstWord = regexp.MustCompile(`^[\s(]*[A-Za-z]+`)
	returning = regexp.MustCompile(`(?i)\breturning\b`)
	// notWords are strings, quoted names and comments.
	notWords = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/`)
)

// wrongRows begins the text of which the server says that it is no integer.
const wrongRows = "idemsk: rows "

// maxSentTexts is the maximum number of statements whose text is kept. A program has few; one that writes
// values into its statements has ever new ones.
const maxSentTexts = 1000

// sentTexts keeps what is sent for the statements that were enlisted before.
type sentTexts struct {
	mu    sync.Mutex
	known map[enlistedText]*sentText
}

// enlistedText is a statement's text and the number of rows that it must change, or anyRows.
type enlistedText struct {
	sql  string
	rows int64
}

// sentText is what is sent for a statement.
type sentText struct {
	sent string // it fails if the handler's statement does not change the rows that it must
	// whether the statement was seen to change the role or what else resetSettings does not reset
	changes atomic.Bool
}

// of returns what is sent for a statement.
func (t *sentTexts) of(sql string, rows int64) (*sentText, error) {
	text := enlistedText{sql, rows}
	t.mu.Lock()
	defer t.mu.Unlock()
	if sent, ok := t.known[text]; ok {
		return sent, nil
	}
	sent, err := text.prepare()
	if err != nil {
		return nil, err
	}
	if t.known == nil || len(t.known) == maxSentTexts {
		t.known = make(map[enlistedText]*sentText)
	}
	t.known[text] = sent
	return sent, nil
}

// prepare returns what is sent. It refuses what would end the transaction of the other handlers, such as
// COMMIT.
func (t enlistedText) prepare() (*sentText, error) {
	words := notWords.ReplaceAllString(t.sql, " ")
	verb := strings.ToUpper(strings.TrimLeft(firstWord.FindString(words), "( \t\r\n\f\v"))
	verbs := []string{"INSERT", "UPDATE", "DELETE", "MERGE", "SELECT", "WITH"}
	if !slices.Contains(verbs, verb) {
		return nil, fmt.Errorf("%w: it begins with %q: want one of %s", ErrInvalidStatement, verb,
			strings.Join(verbs, ", "))
	}
	text := &sentText{sent: t.sql}
	if t.rows == anyRows {
		return text, nil
	}
	counted := strings.TrimRight(t.sql, "; \t\n")
	if verb != "SELECT" && verb != "WITH" && !returning.MatchString(words) {
		counted += "\nRETURNING 1"
	}
	text.sent = `WITH enlisted AS (` + counted + "\n" + `) SELECT CASE count(*) WHEN ` +
		strconv.FormatInt(t.rows, 10) + ` THEN 1 ELSE ('` + wrongRows + `' || count(*))::integer END FROM enlisted`
	return text, nil
}

// failed returns the handler's error for an error of the statement.
func (st *statement) failed(err error) error {
	var said *pgconn.PgError
	if st.rows != anyRows && errors.As(err, &said) && said.Code == stateInvalidText &&
		strings.Contains(said.Message, wrongRows) {
		_, count, _ := strings.Cut(said.Message, wrongRows)
		err = fmt.Errorf("%w: %d, but it changed %s: %s", ErrRows, st.rows, strings.Trim(count, `"`), st.sql)
		if st.orElse != nil {
			err = fmt.Errorf("%w (%w)", st.orElse, err)
		}
		return err
	}
	return fmt.Errorf("pgstore: an enlisted statement failed, and nothing of its handler was committed: %w: %s",
		err, st.sql)
}
