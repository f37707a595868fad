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
	// args: takeArgs. A row for each key: columns, the server's time, and a claimRow. A key for which there
	// is none was written by another transaction meanwhile.
	take     string
	look     string // args: keys. Rows: columns, and the server's time
	complete string // args: completeArgs. A row for each key that was completed: the key
	// completeAll is complete, but a refusal is an error (stateDivisionByZero), so that its transaction is
	// not committed.
	completeAll string
	settle      map[store.SettleOp]string // the other settlements, one at a time

	list   string
	remove string
	prune  string
}

// newStatements returns the statements for a table. clock is an SQL expression for the time.
func newStatements(t pgmigrate.Table, clock string) *statements {
	fill := strings.NewReplacer("{table}", t.SQL(""), "{columns}", columns,
		"{t.columns}", columnsOf("t"), "{(entry).columns}", columnsOf("(entry)"),
		"{now}", "date_trunc('milliseconds', "+clock+")",
		"{lease}", lease, "{few}", few, "{expiry}", ceilSecond("now", "$4"), "{extendedExpiry}", ceilSecond(lease, "$4"),
		"{completedExpiry}", ceilSecond("now", "retention_ms"),
		"{releasedExpiry}", ceilSecond("now + $7::bigint * interval '1 millisecond'", "$4"),
	).Replace
	s := &statements{
		take: fill(clockCTE + takeMany()), look: fill(look),
		complete:    fill(clockCTE + completeMany + ` SELECT idempotency_key FROM done`),
		completeAll: fill(clockCTE + completeMany + ` SELECT 1 / (count(*) = cardinality($1))::integer FROM done`),
		list:        fill(list), remove: fill(remove), prune: fill(prune),
		settle: make(map[store.SettleOp]string),
	}
	for op, set := range map[store.SettleOp]string{store.OpFail: fail, store.OpRelease: release, store.OpExtend: extend} {
		s.settle[op] = fill(clockCTE + set)
	}
	return s
}

// columnsOf returns columns of a row.
func columnsOf(row string) string {
	names := strings.Fields(columns)
	for i := range names {
		names[i] = row + "." + names[i]
	}
	return strings.Join(names, " ")
}

// completeMany is completions. The arguments are arrays with an element for each: 1 keys, 2 tokens, 3 owners,
// 4 retentions in ms, 5 results, 6 sizes of omitted results. The condition is store.Holds.
const completeMany = `, req AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::bigint[])
			AS r (key, token, claimed_by, retention_ms, result, omitted) WHERE {few} ORDER BY key
	), done AS (
		UPDATE {table} SET status = 'COMPLETED', response_payload = result, result_omitted = omitted,
			failure_code = NULL, failure_message = NULL, failure_at = NULL, updated_at = now,
			expiry_timestamp = {completedExpiry}, prune_after = greatest(prune_after, {completedExpiry})
		FROM clock, req WHERE idempotency_key = key AND version = token AND owner = claimed_by AND status = 'STARTED'
			AND retry_at IS NULL
		RETURNING idempotency_key
	)`

// clockCTE gives a statement one time. If a statement waits for another transaction, its time is that before
// the wait. Its conditions then favour the present owner, and a lease that it writes ends no earlier than its
// owner assumes, because the owner counts from before the request.
const clockCTE = `WITH clock AS MATERIALIZED (SELECT {now} AS now)`

// lease is the end of a lease. Argument 5 is its length in ms.
const lease = `now + $5::bigint * interval '1 millisecond'`

// takeMany is claims. The arguments are arrays with an element for each: 1 keys, 2 owners, 3 fingerprints, 4
// sources, 5 leases in ms, 6 retentions in ms, 7 redrives, 8 whether to take over; and 9, the skew in ms.
//
// Its conditions are those of store.Judge, in the same order. Its values are those of store.Fresh and
// store.Take. An existing row is locked only if it can be taken, so a duplicate writes nothing. Rows are
// inserted, and then locked, in the order of their keys.
func takeMany() string {
	const take = `, req AS MATERIALIZED (
		SELECT *, now + lease_ms * interval '1 millisecond' AS new_lease, {freshExpiry} AS new_expiry
		FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[])
			AS r (key, new_owner, fingerprint, new_source, lease_ms, retention_ms, redrive, take_over), clock
		WHERE {few} ORDER BY key
	), fresh AS (
		INSERT INTO {table} ({columns}, prune_after)
		SELECT key, 'STARTED', (extract(epoch FROM now) * 1000)::bigint, new_owner, new_lease, NULL, 1, fingerprint,
			NULL, 0, NULL, NULL, NULL, new_source, now, now, new_expiry, new_expiry
		FROM req ORDER BY key ON CONFLICT (idempotency_key) DO NOTHING RETURNING idempotency_key
	), found AS MATERIALIZED (
		SELECT req.*, t AS entry FROM req JOIN {table} t ON t.idempotency_key = req.key
		WHERE key NOT IN (SELECT idempotency_key FROM fresh)
	), seen AS (
		SELECT t.*, found.*
		FROM found JOIN {table} t ON t.idempotency_key = found.key
		WHERE NOT (status = 'STARTED' AND owner = new_owner AND new_owner <> '' AND retry_at IS NULL)
			AND coalesce(octet_length(request_fingerprint), 32) = 32 AND CASE -- a foreign row is not taken
			WHEN status <> 'STARTED' AND expiry_timestamp + {skew} <= now THEN true
			WHEN request_fingerprint <> fingerprint THEN false
			WHEN status = 'FAILED' THEN version = redrive
			WHEN status = 'COMPLETED' THEN false
			WHEN retry_at IS NOT NULL THEN retry_at <= now
			ELSE take_over AND (lease_until + {skew} <= now)
		END
		ORDER BY key FOR UPDATE OF t
	), taken AS (
		UPDATE {table} t SET status = 'STARTED', owner = new_owner, version = seen.version + 1,
			lease_until = new_lease, retry_at = NULL, source = new_source, updated_at = seen.now,
			expiry_timestamp = new_expiry, prune_after = new_expiry,
			attempts            = CASE seen.status WHEN 'STARTED' THEN seen.attempts + 1 ELSE 1 END,
			request_fingerprint = CASE seen.status WHEN 'STARTED' THEN coalesce(fingerprint, seen.request_fingerprint) ELSE fingerprint END,
			created_at          = CASE seen.status WHEN 'STARTED' THEN seen.created_at ELSE seen.now END,
			response_payload    = CASE seen.status WHEN 'STARTED' THEN seen.response_payload END,
			result_omitted      = CASE seen.status WHEN 'STARTED' THEN seen.result_omitted ELSE 0 END,
			failure_code        = CASE seen.status WHEN 'STARTED' THEN seen.failure_code END,
			failure_message     = CASE seen.status WHEN 'STARTED' THEN seen.failure_message END,
			failure_at          = CASE seen.status WHEN 'STARTED' THEN seen.failure_at END
		FROM seen WHERE t.idempotency_key = seen.idempotency_key
		RETURNING {t.columns},
			CASE WHEN seen.status = 'STARTED' AND seen.retry_at IS NULL THEN 3 ELSE 2 END AS how
	) SELECT {columns}, now, how FROM taken, clock
	UNION ALL SELECT {(entry).columns}, now, 0 FROM found WHERE key NOT IN (SELECT idempotency_key FROM taken)
	UNION ALL SELECT idempotency_key, {unread}, now, 1 FROM fresh, clock`
	return strings.NewReplacer("{skew}", "$9::bigint * interval '1 millisecond'",
		"{freshExpiry}", ceilSecond("now + lease_ms * interval '1 millisecond'", "retention_ms"),
		"{unread}", strings.Repeat("NULL, ", columnCount-2)+"NULL").Replace(take)
}

// ceilSecond implements rule 9: the sum of a time and a retention in ms, rounded up to whole seconds.
func ceilSecond(moment, ms string) string {
	return `date_trunc('second', ` + moment + ` + ` + ms +
		`::bigint * interval '1 millisecond' + interval '999 milliseconds')`
}

const look = `SELECT {columns}, {now} FROM unnest($1::text[]) AS r (key) JOIN {table} ON idempotency_key = key WHERE {few}`

// few is true. The planner expects that it is true of one row in 200, and so looks each key up by the index,
// also in a plan that was cached when the table was small. Without it, it may read the whole table.
const few = `key = key || ''`

// The settlements. Arguments: 1 key, 2 token, 3 owner, 4 retention in ms, and further ones of each. Their
// condition is store.Holds. Their values are those of store.Settled.
const (
	held = ` FROM clock WHERE idempotency_key = $1 AND version = $2 AND owner = $3 AND status = 'STARTED' AND retry_at IS NULL`

	failure = `failure_code = coalesce($5, failure_code), failure_message = CASE WHEN $5::text IS NULL THEN failure_message ELSE $6 END,
		failure_at = CASE WHEN $5::text IS NULL THEN failure_at ELSE now END, updated_at = now, `

	fail = ` UPDATE {table} SET status = 'FAILED', ` + failure + `
		expiry_timestamp = {expiry}, prune_after = greatest(prune_after, {expiry})` + held

	release = ` UPDATE {table} SET retry_at = now + $7::bigint * interval '1 millisecond', attempts = attempts - $8, ` + failure + `
		expiry_timestamp = {releasedExpiry}, prune_after = greatest(prune_after, {releasedExpiry})` + held

	// A delayed extension does not shorten the lease.
	extend = ` UPDATE {table} SET lease_until = {lease}, updated_at = now,
		expiry_timestamp = {extendedExpiry}, prune_after = greatest(prune_after, {extendedExpiry})` + held +
		` AND lease_until <= {lease}`
)

// queue adds a settlement that is no completion to a batch. done is called with whether it was applied.
func (s *statements) queue(batch *pgx.Batch, set *store.Settlement, done func(bool)) {
	batch.Queue(s.settle[set.Op], settleArgs(set)...).Exec(func(tag pgconn.CommandTag) error {
		done(tag.RowsAffected() > 0)
		return nil
	})
}

// takeArgs returns the arguments of statements.take for the requests with these indices.
func takeArgs(reqs []store.ClaimRequest, chunk []int, skew time.Duration) []any {
	n := len(chunk)
	keys, owners, sources := make([]string, n), make([]string, n), make([]string, n)
	fingerprints, takeOver := make([][]byte, n), make([]bool, n)
	leases, retentions, redrives := make([]int64, n), make([]int64, n), make([]int64, n)
	for at, i := range chunk {
		req := &reqs[i]
		keys[at], owners[at], sources[at] = escape(req.Key), escape(req.Owner), escape(req.Source)
		fingerprints[at], takeOver[at] = bytesOf(req.Fingerprint), req.TakeOver
		leases[at], retentions[at], redrives[at] = req.Lease.Milliseconds(), ceilMS(req.Retention), req.RedriveToken
	}
	return []any{keys, owners, fingerprints, sources, leases, retentions, redrives, takeOver, ceilMS(skew)}
}

// completeArgs returns the arguments of statements.complete for the settlements with these indices.
func completeArgs(ss []store.Settlement, chunk []int) []any {
	n := len(chunk)
	keys, owners, results := make([]string, n), make([]string, n), make([][]byte, n)
	tokens, retentions, omitted := make([]int64, n), make([]int64, n), make([]int64, n)
	for at, i := range chunk {
		set := &ss[i]
		keys[at], owners[at], results[at] = escape(set.Key), escape(set.Owner), nilIfEmpty(set.Result)
		tokens[at], retentions[at], omitted[at] = set.Token, ceilMS(set.Retention), int64(set.ResultOmitted)
	}
	return []any{keys, tokens, owners, retentions, results, omitted}
}

// settleArgs returns the arguments of a settlement that is no completion.
func settleArgs(set *store.Settlement) []any {
	args := []any{escape(set.Key), set.Token, escape(set.Owner), ceilMS(set.Retention)}
	switch set.Op {
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
	case store.OpComplete:
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
			SELECT idempotency_key FROM {table} WHERE prune_after <= {now} ORDER BY prune_after LIMIT $1
			FOR UPDATE SKIP LOCKED
		) DELETE FROM {table} t USING expired WHERE t.idempotency_key = expired.idempotency_key`
)
