package pgstore

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/pg/pgmigrate"
)

// serverClock is the clock of all statements.
const serverClock = `clock_timestamp()`

// statements are the SQL of a store. They express the rules of package store as conditions and values of
// single statements, each of which reads and writes in one step. A key that is not taken is judged by package
// store.
type statements struct {
	// args: takeArgs. A row if the key was taken: whether the previous owner had not released it
	take   string
	look   string // args: keys. Rows: columns, and the server's time
	settle map[store.SettleOp]string
	// completeTx is complete, but a refusal is an error (stateDivisionByZero), so that the following COMMIT
	// is not executed.
	completeTx string
	list       string
	remove     string
	prune      string
}

// newStatements returns the statements for a table. clock is an SQL expression for the time.
func newStatements(t pgmigrate.Table, clock string) *statements {
	fill := strings.NewReplacer("{table}", t.SQL(""), "{columns}", columns,
		"{now}", "date_trunc('milliseconds', "+clock+")",
		"{lease}", lease, "{expiry}", ceilSecond("now", "$4"), "{extendedExpiry}", ceilSecond(lease, "$4"),
		"{releasedExpiry}", ceilSecond("now + $7::bigint * interval '1 millisecond'", "$4"),
	).Replace
	s := &statements{
		take: fill(clockCTE + takeCTE()), look: fill(look),
		list: fill(list), remove: fill(remove), prune: fill(prune),
		settle: make(map[store.SettleOp]string),
	}
	for op, set := range map[store.SettleOp]string{store.OpComplete: complete, store.OpFail: fail,
		store.OpRelease: release, store.OpExtend: extend} {
		s.settle[op] = fill(clockCTE + set)
	}
	s.completeTx = fill(clockCTE + orError(complete))
	return s
}

// orError turns a write that changes no row into an error of the server.
func orError(write string) string {
	return `, done AS (` + write + ` RETURNING 1) SELECT 1 / count(*) FROM done`
}

// clockCTE gives a statement one time. If a statement waits for another transaction, its time is that before
// the wait. Its conditions then favour the present owner, and a lease that it writes ends no earlier than its
// owner assumes, because the owner counts from before the request.
const clockCTE = `WITH clock AS MATERIALIZED (SELECT {now} AS now)`

// lease is the end of a lease. Argument 5 is its length in ms.
const lease = `now + $5::bigint * interval '1 millisecond'`

// takeCTE is a claim. Arguments: 1 key, 2 owner, 3 fingerprint, 4 source, 5 lease in ms, 6 retention in ms, 7
// redrive, 8 whether to take over, 9 skew in ms.
//
// Its conditions are those of store.Judge, in the same order. Its values are those of store.Fresh and
// store.Take. An existing row is locked only if it can be taken, so a duplicate writes nothing.
func takeCTE() string {
	const take = `, fresh AS (
		INSERT INTO {table} ({columns})
		SELECT $1, 'STARTED', (extract(epoch FROM now) * 1000)::bigint, $2, {lease}, NULL, 1, $3::bytea,
			NULL, 0, NULL, NULL, NULL, $4, now, now, {freshExpiry}
		FROM clock ON CONFLICT (idempotency_key) DO NOTHING RETURNING false AS stolen
	), seen AS (
		SELECT t.*, clock.now FROM {table} t, clock
		WHERE idempotency_key = $1 AND NOT (status = 'STARTED' AND owner = $2 AND $2 <> '' AND retry_at IS NULL)
			AND coalesce(octet_length(request_fingerprint), 32) = 32 AND CASE -- a foreign row is not taken
			WHEN status <> 'STARTED' AND expiry_timestamp + {skew} <= now THEN true
			WHEN request_fingerprint <> $3::bytea THEN false
			WHEN status = 'FAILED' THEN version = $7
			WHEN status = 'COMPLETED' THEN false
			WHEN retry_at IS NOT NULL THEN retry_at <= now
			ELSE $8::boolean AND (lease_until + {skew} <= now)
		END
		FOR UPDATE OF t
	), taken AS (
		UPDATE {table} t SET status = 'STARTED', version = seen.version + 1, owner = $2,
			lease_until = seen.{lease}, retry_at = NULL, source = $4, updated_at = seen.now, expiry_timestamp = {seenExpiry},
			attempts            = CASE seen.status WHEN 'STARTED' THEN seen.attempts + 1 ELSE 1 END,
			request_fingerprint = CASE seen.status WHEN 'STARTED' THEN coalesce($3, seen.request_fingerprint) ELSE $3 END,
			created_at          = CASE seen.status WHEN 'STARTED' THEN seen.created_at ELSE seen.now END,
			response_payload    = CASE seen.status WHEN 'STARTED' THEN seen.response_payload END,
			result_omitted      = CASE seen.status WHEN 'STARTED' THEN seen.result_omitted ELSE 0 END,
			failure_code        = CASE seen.status WHEN 'STARTED' THEN seen.failure_code END,
			failure_message     = CASE seen.status WHEN 'STARTED' THEN seen.failure_message END,
			failure_at          = CASE seen.status WHEN 'STARTED' THEN seen.failure_at END
		FROM seen WHERE t.idempotency_key = seen.idempotency_key
		RETURNING seen.status = 'STARTED' AND seen.retry_at IS NULL AS stolen
	) SELECT stolen FROM fresh UNION ALL SELECT stolen FROM taken`
	return strings.NewReplacer(
		"{skew}", "$9::bigint * interval '1 millisecond'",
		"{freshExpiry}", ceilSecond("{lease}", "$6"), "{seenExpiry}", ceilSecond("seen.{lease}", "$6"),
	).Replace(take)
}

// ceilSecond implements rule 9: the sum of a time and a retention in ms, rounded up to whole seconds.
func ceilSecond(moment, ms string) string {
	return `date_trunc('second', ` + moment + ` + ` + ms +
		`::bigint * interval '1 millisecond' + interval '999 milliseconds')`
}

const look = `SELECT {columns}, {now} FROM {table} WHERE idempotency_key = ANY($1)`

// The settlements. Arguments: 1 key, 2 token, 3 owner, 4 retention in ms, and further ones of each. Their
// condition is store.Holds. Their values are those of store.Settled.
const (
	held = ` FROM clock WHERE idempotency_key = $1 AND version = $2 AND owner = $3 AND status = 'STARTED' AND retry_at IS NULL`

	complete = ` UPDATE {table} SET status = 'COMPLETED', response_payload = $5, result_omitted = $6,
		failure_code = NULL, failure_message = NULL, failure_at = NULL, updated_at = now,
		expiry_timestamp = {expiry}` + held

	failure = `failure_code = coalesce($5, failure_code), failure_message = CASE WHEN $5::text IS NULL THEN failure_message ELSE $6 END,
		failure_at = CASE WHEN $5::text IS NULL THEN failure_at ELSE now END, updated_at = now, `

	fail = ` UPDATE {table} SET status = 'FAILED', ` + failure + `
		expiry_timestamp = {expiry}` + held

	release = ` UPDATE {table} SET retry_at = now + $7::bigint * interval '1 millisecond', attempts = attempts - $8, ` + failure + `
		expiry_timestamp = {releasedExpiry}` + held

	// A delayed extension does not shorten the lease.
	extend = ` UPDATE {table} SET lease_until = {lease}, updated_at = now,
		expiry_timestamp = {extendedExpiry}` + held +
		` AND lease_until <= {lease}`
)

// queue adds a settlement to a batch. done is called with whether the settlement was applied.
func (s *statements) queue(batch *pgx.Batch, set *store.Settlement, done func(bool)) {
	batch.Queue(s.settle[set.Op], settleArgs(set)...).Exec(func(tag pgconn.CommandTag) error {
		done(tag.RowsAffected() > 0)
		return nil
	})
}

func takeArgs(req *store.ClaimRequest, skew time.Duration) []any {
	return []any{
		escape(req.Key), escape(req.Owner), bytesOf(req.Fingerprint), escape(req.Source),
		req.Lease.Milliseconds(), ceilMS(req.Retention),
		req.RedriveToken, req.TakeOver, ceilMS(skew),
	}
}

func settleArgs(set *store.Settlement) []any {
	args := []any{escape(set.Key), set.Token, escape(set.Owner), ceilMS(set.Retention)}
	switch set.Op {
	case store.OpComplete:
		return append(args, nilIfEmpty(set.Result), int64(set.ResultOmitted))
	case store.OpFail:
		return appendFailure(args, set.Failure)
	case store.OpRelease:
		refund := 0
		if set.Refund {
			refund = 1
		}
		return append(appendFailure(args, set.Failure), set.Delay.Milliseconds(), refund)
	case store.OpExtend:
		return append(args, set.Lease.Milliseconds())
	}
	return args
}

// bytesOf returns nil for the zero fingerprint.
func bytesOf(f store.Fingerprint) []byte {
	if f.IsZero() {
		return nil
	}
	return f[:]
}

func appendFailure(args []any, f *store.Failure) []any {
	if f == nil {
		return append(args, nil, nil)
	}
	return append(args, escape(f.Code), escape(f.Message))
}

// ceilMS returns d in milliseconds, rounded up.
func ceilMS(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

const (
	// Arguments: 1 the last key of the previous page, 2 status or '', 3 updated before or NULL, 4 rows of a
	// page.
	list = `SELECT {columns}, {now} FROM {table} WHERE idempotency_key > $1 AND ($2 = '' OR status = $2)
		AND ($3::timestamptz IS NULL OR updated_at < $3) ORDER BY idempotency_key LIMIT $4`

	remove = `DELETE FROM {table} WHERE idempotency_key = $1 AND version = $2`

	// Locked rows are skipped: a later call deletes them.
	prune = `WITH expired AS MATERIALIZED (
			SELECT idempotency_key FROM {table} WHERE expiry_timestamp <= {now} ORDER BY expiry_timestamp LIMIT $1 FOR UPDATE SKIP LOCKED
		) DELETE FROM {table} t USING expired WHERE t.idempotency_key = expired.idempotency_key`
)
