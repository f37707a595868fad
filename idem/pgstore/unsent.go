package pgstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
)

// Arguments are encoded for the types of a statement's parameters, which the server knows. So those that can't be
// encoded are found when a request is sent: a pgtrip.UnsentError, which does not say which one it is.

// unsent returns the errors of the completions with these indices of which a statement can't be encoded.
func (s *Store) unsent(ctx context.Context, ss []store.Settlement, members []int) (unsent map[int]error, err error) {
	err = s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		unsent = make(map[int]error)
		described := make(map[string]*pgconn.StatementDescription)
		for _, i := range members {
			for _, st := range effectIn(&ss[i]).enlisted {
				refused, err := st.encode(w, conn, described)
				switch {
				case err != nil:
					return err
				case refused != nil && unsent[i] == nil:
					unsent[i] = &store.RejectedError{Err: st.failed(refused)}
				}
			}
		}
		return nil
	})
	return unsent, err
}

// encode encodes the arguments, and returns the error of one that can't be encoded.
func (st *statement) encode(w *silence.Watch, conn *pgx.Conn,
	described map[string]*pgconn.StatementDescription) (refused, err error) {
	defer func() {
		if v := recover(); v != nil {
			refused = &idem.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	sql, args := st.text.sent, st.args
	for len(args) > 0 {
		rewriter, ok := args[0].(pgx.QueryRewriter)
		if !ok {
			break
		}
		if sql, args, refused = rewriter.RewriteQuery(w.Context(), conn, sql, args[1:]); refused != nil {
			return refused, nil
		}
	}
	description, err := describe(w, conn, described, sql)
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return nil, nil // the request that has the statement reports it
	} else if err != nil {
		return nil, err
	}
	return new(pgx.ExtendedQueryBuilder).Build(conn.TypeMap(), description, args), nil
}

// describe returns the description of a statement, or nil if the connection sends statements without one.
func describe(w *silence.Watch, conn *pgx.Conn, described map[string]*pgconn.StatementDescription,
	sql string) (description *pgconn.StatementDescription, err error) {
	switch conn.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, nil //nolint:nilnil // see above
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec:
	}
	if description = described[sql]; description == nil {
		description, err = conn.Prepare(w.Context(), "", sql)
		described[sql] = description
		w.Heard()
	}
	return description, err
}

// notSent returns the handler's error for a pgtrip.UnsentError.
func notSent(err error) error {
	var unsent *pgtrip.UnsentError
	var preparing pgx.ErrPreprocessingBatch
	switch {
	case errors.As(err, &unsent) && unsent.Panic != nil:
		err = &idem.PanicError{Value: unsent.Panic, Stack: unsent.Stack}
	case errors.As(err, &preparing):
		err = fmt.Errorf("%w: %s", preparing.Unwrap(), preparing.SQL())
	}
	return fmt.Errorf("pgstore: an enlisted statement could not be sent, and nothing of its handler was committed: %w", err)
}
