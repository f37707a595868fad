package pgtrip

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/internal/network/silence"
)

// UnsentError means that an argument of a batch could not be encoded, so that nothing of the batch was sent. It
// does not mean that the connection failed, even if Err is an error of a network.
type UnsentError struct {
	Err   error
	Panic any    // the value with which a method of the argument panicked, or nil
	Stack []byte // of the panic
}

func (e *UnsentError) Error() string { return e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }

// IsUnsent reports whether err is an UnsentError.
func IsUnsent(err error) bool {
	var e *UnsentError
	return errors.As(err, &e)
}

// Send sends a batch and reads its answers.
func Send(w *silence.Watch, conn *pgx.Conn, batch *pgx.Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			_ = conn.PgConn().Conn().Close()
			_ = conn.Close(w.Context())
			err = &UnsentError{Err: fmt.Errorf("panicked: %v", v), Panic: v, Stack: debug.Stack()}
		}
	}()
	err = conn.SendBatch(w.Context(), batch).Close()
	if err != nil && w.Context().Err() == nil && !encoded(conn, err) {
		return &UnsentError{Err: err}
	}
	return err
}

// encoded reports whether a batch that failed was encoded. pgx prepares statements before it encodes their
// arguments, and then closes the connection if it can't; otherwise it encodes first, and the connection stays open.
func encoded(conn *pgx.Conn, err error) bool {
	var preparing pgx.ErrPreprocessingBatch
	var said *pgconn.PgError
	if errors.As(err, &preparing) {
		return !strings.HasPrefix(preparing.Error(), "error preprocessing batch (build)")
	}
	return errors.As(err, &said) || conn.IsClosed()
}
