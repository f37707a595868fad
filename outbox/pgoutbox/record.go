package pgoutbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/internal/pg/pgtrip"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// typeHeader is the header whose value is stored in the column type.
const typeHeader = "event-type"

// record inserts events that outbox.Prepare returned.
func (o *Outbox) record(ctx context.Context, tx pgx.Tx, events []outbox.Event) error {
	ids, topics, types := make([]string, len(events)), make([]string, len(events)), make([]string,
		len(events))
	keys, values := make([][]byte, len(events)), make([][]byte, len(events))
	headers := make([]*string, len(events))
	for i := range events {
		e := &events[i]
		ids[i], topics[i], keys[i], values[i] = e.ID, e.Topic, e.Key, e.Value
		types[i] = typeOf(e)
		var err error
		if headers[i], err = encodeHeaders(e.Headers); err != nil {
			return fmt.Errorf("pgoutbox: event %s: %w", e.ID, err)
		}
		if size := storedSize(e, headers[i]); size > relay.MaxSize {
			return fmt.Errorf("%w: event %s: with its headers as JSON it has %d bytes; the maximum is %d: "+
				"publish a reference to the data instead of the data", outbox.ErrInvalidEvent, e.ID, size, relay.MaxSize)
		}
	}
	if err := o.write(ctx, tx, ids, topics, keys, types, values, headers); err != nil {
		return fmt.Errorf("pgoutbox: writing %d events to table %s, the first %s to topic %q: %w%s",
			len(events), o.table, ids[0], topics[0], err, hint(err))
	}
	return nil
}

// write inserts rows and, for the log only, deletes them again: by ID and seq, because another partition may
// have events of the same IDs.
func (o *Outbox) write(ctx context.Context, tx pgx.Tx, args ...any) error {
	if !o.logOnly {
		_, err := tx.Exec(ctx, o.sql.insert, args...)
		return err
	}
	found, err := tx.Query(ctx, o.sql.insert+returning, args...)
	if err != nil {
		return err
	}
	var written rows
	var of row
	if _, err := pgx.ForEachRow(found, []any{&of.ID, &of.seq},
		func() error { written.add(&of); return nil }); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, o.sql.remove, written.ids, written.seqs)
	return err
}

func typeOf(e *outbox.Event) string {
	for _, h := range e.Headers {
		if h.Key == typeHeader && text(h.Value) {
			return string(h.Value)
		}
	}
	return ""
}

// text reports whether b is valid as a PostgreSQL text.
func text(b []byte) bool { return utf8.Valid(b) && !strings.ContainsRune(string(b), 0) }

// storedHeader is a header in the column headers. It has value, or base64 for a value that is not text, or
// neither for a nil value.
type storedHeader struct {
	Key    string  `json:"key"`
	Value  *string `json:"value,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

func encodeHeaders(headers []outbox.Header) (*string, error) {
	if len(headers) == 0 {
		return nil, nil //nolint:nilnil // NULL
	}
	stored := make([]storedHeader, len(headers))
	for i, h := range headers {
		stored[i].Key = h.Key
		switch {
		case h.Value == nil:
		case text(h.Value):
			value := string(h.Value)
			stored[i].Value = &value
		default:
			stored[i].Base64 = h.Value
		}
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // PostgreSQL's text has no such escapes
	if err := encoder.Encode(stored); err != nil {
		return nil, err
	}
	s := b.String()
	return &s, nil
}

// storedSize returns at least the size that the statement take counts for the event's row.
func storedSize(e *outbox.Event, headers *string) int {
	size := len(e.Topic) + len(e.Key) + len(e.Value)
	if headers != nil {
		const blanks = 4 // that PostgreSQL writes for each header
		size += len(*headers) + blanks*len(e.Headers)
	}
	return size
}

func decodeHeaders(column []byte) ([]outbox.Header, error) {
	if column == nil {
		return nil, nil
	}
	var stored []storedHeader
	if err := json.Unmarshal(column, &stored); err != nil {
		return nil, fmt.Errorf("the column headers: want [{\"key\":…,\"value\":…}]: %w", err)
	}
	headers := make([]outbox.Header, len(stored))
	for i, h := range stored {
		headers[i] = outbox.Header{Key: h.Key, Value: h.Base64}
		if h.Value != nil {
			headers[i].Value = []byte(*h.Value)
		}
	}
	return headers, nil
}

// hint returns the remedy for an error of the server, "" if none is known.
func hint(err error) string {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return ""
	}
	switch said.Code {
	case "42P01", "3F000": // no such table, no such schema
		return " (the table does not exist in this database: run pgoutbox.Migrate (idemsk relay --migrate), or name the right table)"
	case "42703": // no such column
		return " (the table is older than this program: run pgoutbox.Migrate (idemsk relay --migrate))"
	case "42501": // no privilege
		return " (the role needs USAGE on the schema, and on the table INSERT to publish, SELECT, UPDATE and DELETE to relay, " +
			"with SELECT on the table of its migrations; to migrate, CREATE on the schema, and to own the table)"
	case "23505": // unique
		return " (an event with this ID was published before)"
	case "25006": // read-only
		return " (the server is a standby, or the transaction is read-only)"
	}
	return pgtrip.PoolerHint(err)
}
