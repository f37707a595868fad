package pgstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
)

// Look implements store.Ranger. Up to 1,000 keys are one round trip.
func (s *Store) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, 0, len(reqs))
	for chunk := range slices.Chunk(reqs, maxClaims) {
		keys := make([]string, len(chunk))
		for i := range chunk {
			keys[i] = chunk[i].Key
		}
		seen, now, err := s.lookNow(ctx, keys)
		for i := range chunk {
			req, res := &chunk[i], store.ClaimResult{}
			found, there := seen[req.Key]
			switch err := cmp.Or(err, found.foreign); {
			case err != nil:
				res.Err = s.explain("read", req.Key, err)
			case !there:
				res = store.Absent(now)
			default:
				res, _ = s.judge(req, &found)
			}
			results = append(results, res)
		}
	}
	return results
}

// lookNow is lookAt with the server's time, which is that of the keys that are absent.
func (s *Store) lookNow(ctx context.Context, keys []string) (seen map[string]sighting, now time.Time,
	err error) {
	seen = make(map[string]sighting)
	escaped := escapeAll(keys)
	err = s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		clear(seen)
		var batch pgx.Batch
		batch.Queue(s.sql.time).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
		batch.Queue(s.sql.look, escaped).Query(func(rows pgx.Rows) error { return readSightings(rows, w, seen) })
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	return seen, now, err
}

// insertMany is completions of keys that must be absent. Arguments 1 to 6 are those of completeMany. 7 are
// fingerprints, 8 sources and 9 leases in ms. Its values are those of store.FreshlySettled.
const insertMany = `
		INSERT INTO {table} ({columns}, prune_after)
		SELECT key, 'COMPLETED', token, claimed_by, {claimed} + lease_ms * interval '1 millisecond', NULL, 1, fingerprint,
			result, omitted, NULL, NULL, NULL, place, {claimed}, now, {completedExpiry}, NULL, NULL, {completedExpiry}
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bytea[], $8::text[], $9::bigint[])
			AS r (key, token, claimed_by, retention_ms, result, omitted, fingerprint, place, lease_ms), clock
		ORDER BY key`

// ifAbsent ends an insertion that leaves out the keys that are there.
const ifAbsent = ` ON CONFLICT (idempotency_key) DO NOTHING`

// byClaim divides settlements into those of claims, and those of keys that must be absent.
func byClaim(ss []store.Settlement, indices []int) (held, absent []int) {
	for _, i := range indices {
		if ss[i].Claim == nil {
			held = append(held, i)
		} else {
			absent = append(absent, i)
		}
	}
	return held, absent
}

// claimed is the time of the claim that a settlement of an absent key makes: its token is that time.
const claimed = `(timestamptz 'epoch' + token * interval '1 millisecond')`

// insertOne is a failure or a release of a key that must be absent. Arguments 1 to 8 are those of a release, 7
// being NULL for a failure, and 9 to 11 the fingerprint, the source and the lease in ms.
const insertOne = ` INSERT INTO {table} ({columns}, prune_after)
	SELECT $1::text, CASE WHEN delay IS NULL THEN 'FAILED' ELSE 'STARTED' END, token, $3::text,
		{claimed} + $11::bigint * interval '1 millisecond', now + delay, 1 - $8::integer, $9::bytea, NULL, 0,
		$5::text, CASE WHEN $5 IS NOT NULL THEN $6::text END, CASE WHEN $5 IS NOT NULL THEN now END, $10::text, {claimed}, now,
		expiry, NULL, NULL, expiry
	FROM (SELECT now, $2::bigint AS token, $7::bigint * interval '1 millisecond' AS delay FROM clock) AS r,
		LATERAL (SELECT {settledExpiry} AS expiry) AS e
	` + ifAbsent

// insertArgs returns the arguments of statements.insert for the settlements with these indices.
func insertArgs(ss []store.Settlement, chunk []int) []any {
	n := len(chunk)
	fingerprints, sources, leases := make([][]byte, n), make([]string, n), make([]int64, n)
	for at, i := range chunk {
		req := ss[i].Claim
		fingerprints[at], sources[at] = bytesOf(req.Fingerprint), escape(req.Source)
		leases[at] = req.Lease.Milliseconds()
	}
	return append(completeArgs(ss, chunk), fingerprints, sources, leases)
}

// insertOneArgs returns the arguments of statements.insertOne.
func insertOneArgs(set *store.Settlement) []any {
	args := settleArgs(set)
	if set.Op == store.OpFail {
		args = append(args, nil, 0)
	} else {
		args = args[:len(args)-1] // without the till of a range
	}
	return append(args, bytesOf(set.Claim.Fingerprint), escape(set.Claim.Source), set.Claim.Lease.Milliseconds())
}
