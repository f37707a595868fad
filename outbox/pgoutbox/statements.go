package pgoutbox

import (
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/internal/pg/pgmigrate"
	"github.com/idemsk/idemsk/outbox/relay"
)

// statements are the SQL statements for one table. The comments list the arguments. An ID alone is not a row:
// in a partitioned table an ID may recur in another partition. IDs are there for the index.
type statements struct {
	insert                  string // ids, topics, keys, types, values, headers
	table                   string // the oid of the table, and the number of the server's process
	busy                    string // the class of locks, how many shards, which not, and topics to leave out
	take                    string // shards, how many of each, and what to leave out: topics, seqs, topics and keys
	publish                 string // ids, seqs
	remove                  string // ids, seqs
	reject                  string // ids, seqs, failures, how many attempts, the first delay and the longest in s
	publishEach, removeEach string // the setting idemsk.marks
	stats                   string
	prune                   string // retention in s, how many
	parked                  string // how many, 0 for all
	requeue                 string // ids
}

// returning makes insert return the rows that it wrote.
const returning = ` RETURNING id::text, seq`

// pending is the condition of unpublished events.
const pending = `published_at IS NULL AND parked_at IS NULL`

// ready is the condition of events that may be sent now, with the alias o: no retry delay applies to the
// event or to an earlier event of its topic and key.
const ready = `o.published_at IS NULL AND o.parked_at IS NULL AND (o.retry_at IS NULL OR o.retry_at <= clock_timestamp())
	AND NOT EXISTS (SELECT FROM {{table}} b WHERE sha256(b.aggregateid) = sha256(o.aggregateid) AND b.aggregatetype = o.aggregatetype AND b.seq < o.seq
		AND b.retry_at IS NOT NULL AND b.published_at IS NULL AND b.parked_at IS NULL AND b.retry_at > clock_timestamp())`

// take locks and returns events at the heads of shards. It skips rows that another session has locked, for
// example an operator who deletes them. For each topic and key of which a pending row was skipped before a
// returned one, it returns a row without id.
//
// Of a row that is too large to be sent it returns the size instead of the contents. A message of PostgreSQL
// can't contain the largest rows, and the contents of others would fill the memory of the relay.
const take = `WITH taken AS MATERIALIZED (
		SELECT o.* FROM unnest($1::integer[]) AS s (shard), LATERAL (
			SELECT shard, id, aggregatetype, aggregateid, payload, headers, seq FROM {{table}} o
			WHERE o.shard = s.shard::smallint AND {{but}} AND {{ready}}
				AND (o.aggregateid IS NULL OR (o.aggregatetype, o.aggregateid) NOT IN (SELECT * FROM unnest($5::text[], $6::bytea[])))
			ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED) AS o)
	SELECT id::text, ` + topicAndKey + `, CASE WHEN size <= {{largest}} THEN payload END, CASE WHEN size <= {{largest}} THEN headers END, seq, size
	FROM taken, LATERAL (SELECT ` + named + ` + coalesce(octet_length(payload), 0)
		+ CASE WHEN pg_column_size(headers) > 10000 THEN octet_length(headers::text) ELSE 0 END AS size) AS s
	UNION ALL
	SELECT NULL, ` + topicAndKey + `, NULL, NULL, min(seq), 0
	FROM (SELECT shard, max(seq) AS last FROM taken GROUP BY shard) AS s, LATERAL (
		SELECT aggregatetype, aggregateid, seq FROM {{table}} o
		WHERE o.shard = s.shard AND {{but}} AND {{pending}} AND o.seq < s.last ORDER BY seq OFFSET 0) AS o
	WHERE aggregateid IS NOT NULL AND NOT EXISTS (SELECT FROM taken WHERE taken.seq = o.seq)
	GROUP BY aggregatetype, aggregateid
	ORDER BY seq`

// The topic and the key of an event, or their beginnings if they alone are too large, and the size of both.
const (
	topicAndKey = `CASE WHEN ` + named + ` <= {{largest}} THEN aggregatetype ELSE left(aggregatetype, 1000) END,
		CASE WHEN ` + named + ` <= {{largest}} THEN aggregateid ELSE substr(aggregateid, 1, 1000) END`
	named = `(octet_length(aggregatetype)::bigint + coalesce(octet_length(aggregateid), 0))`
)

// but is the condition of rows that are not left out.
const but = `o.aggregatetype <> ALL ($3::text[]) AND o.seq NOT IN (SELECT unnest($4::bigint[]))`

func newStatements(t pgmigrate.Table) statements {
	fill := func(sql string) string {
		return strings.NewReplacer("{{ready}}", strings.ReplaceAll(ready, "{{table}}", t.SQL("")),
			"{{pending}}", pending, "{{but}}", but, "{{largest}}", strconv.Itoa(relay.MaxSize), "{{table}}", t.SQL("")).Replace(sql)
	}
	s := statements{
		insert: fill(`INSERT INTO {{table}} (id, aggregatetype, aggregateid, type, payload, headers)
			SELECT id, topic, key, type, value, headers::jsonb
			FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::bytea[], $6::text[]) WITH ORDINALITY
				AS e (id, topic, key, type, value, headers, n) ORDER BY n`),
		table: `SELECT to_regclass($1)::oid, pg_backend_pid()`,

		// There are 64 shards; see the first migration. Their locks are tried one by one, the shard with the
		// oldest event first, up to the limit.
		busy: fill(`WITH waiting AS MATERIALIZED (
				SELECT shard::integer, first FROM generate_series(0, 63) AS shard, LATERAL (
					SELECT seq AS first FROM {{table}} o WHERE o.shard = shard.shard::smallint AND o.aggregatetype <> ALL ($4::text[]) AND {{ready}} ORDER BY seq LIMIT 1) AS o
				WHERE shard <> ALL ($3::integer[]) ORDER BY first)
			SELECT shard FROM waiting WHERE pg_try_advisory_xact_lock($1, shard) LIMIT $2`),
		take: fill(take),
		publish: fill(`UPDATE {{table}} o SET published_at = clock_timestamp()
			FROM unnest($1::uuid[], $2::bigint[]) AS p (id, seq) WHERE o.id = p.id AND o.seq = p.seq`),
		remove: fill(`DELETE FROM {{table}} o USING unnest($1::uuid[], $2::bigint[]) AS p (id, seq) WHERE o.id = p.id AND o.seq = p.seq`),
		reject: fill(`UPDATE {{table}} o SET attempts = attempts + 1, failure = f.failure,
				retry_at = clock_timestamp() + make_interval(secs => least($5 * 2 ^ least(attempts, 30), $6)),
				parked_at = CASE WHEN attempts + 1 >= $4 THEN clock_timestamp() END
			FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS f (id, seq, failure) WHERE o.id = f.id AND o.seq = f.seq
			RETURNING o.id::text, left(o.aggregatetype, 64) AS topic, o.attempts, o.parked_at IS NOT NULL AS parked, o.failure`),
		stats: fill(`SELECT
			(SELECT count(*) FROM (SELECT FROM {{table}} WHERE {{pending}} LIMIT 100000) AS o),
			(SELECT count(*) FROM (SELECT FROM {{table}} WHERE parked_at IS NOT NULL LIMIT 100000) AS o),
			coalesce(extract(epoch FROM clock_timestamp() - (SELECT min(created_at) FILTER (WHERE isfinite(created_at)) FROM generate_series(0, 63) AS shard, LATERAL (
				SELECT created_at FROM {{table}} o WHERE o.shard = shard.shard::smallint AND {{pending}} ORDER BY seq LIMIT 1) AS o)), 0)::float8`),
		prune: fill(`DELETE FROM {{table}} WHERE (id, seq) IN (SELECT id, seq FROM {{table}}
			WHERE published_at < clock_timestamp() - make_interval(secs => $1) ORDER BY published_at LIMIT $2 FOR UPDATE SKIP LOCKED)`),
		parked: fill(`SELECT id::text, ` + topicAndKey + `, created_at, parked_at, attempts, coalesce(failure, '') FROM {{table}}
			WHERE parked_at IS NOT NULL AND published_at IS NULL ORDER BY parked_at, seq LIMIT nullif($1::bigint, 0)`),
		requeue: fill(`UPDATE {{table}} SET parked_at = NULL, retry_at = NULL, attempts = 0
			WHERE id = ANY($1::uuid[]) AND parked_at IS NOT NULL AND published_at IS NULL`),
	}
	s.publishEach, s.removeEach = each(s.publish, s.reject), each(s.remove, s.reject)
	return s
}

// markEach is a statement that marks rows one after another. It has no arguments: the setting idemsk.marks has
// them, and then has the result: what reject returns, and the errors of the rows that were not marked.
const markEach = `DO $do$
	DECLARE
		given CONSTANT jsonb := current_setting('idemsk.marks');
		m record;
		charge jsonb;
		charged jsonb := '[]';
		refused jsonb := '{}';
	BEGIN
		FOR m IN SELECT * FROM jsonb_to_recordset(given->'marks') AS g (n integer, id uuid, seq bigint, failure text) LOOP
			BEGIN
				IF m.failure IS NULL THEN
					{{settle}};
				ELSE
					WITH r AS ({{reject}}) SELECT to_jsonb(r) INTO charge FROM r;
				END IF;
				IF NOT FOUND THEN
					RAISE '` + unchanged + `';
				END IF;
				IF m.failure IS NOT NULL THEN
					charged := charged || charge;
				END IF;
			EXCEPTION WHEN others THEN
				IF left(SQLSTATE, 2) IN (` + ofServer + `) THEN
					RAISE;
				END IF;
				refused := refused || jsonb_build_object(m.n, SQLERRM || ' (SQLSTATE ' || SQLSTATE || ')');
			END;
		END LOOP;
		PERFORM set_config('idemsk.marks', jsonb_build_object('charged', charged, 'refused', refused)::text, true);
	END $do$`

const (
	unchanged = "the row was not changed: a trigger keeps it as it is"
	// ofServer are the classes of errors that are not of a row, or of what is on the table: the connection, the
	// state of the transaction, a session, a conflict, resources, an operator, the system, the configuration. A
	// trigger can raise any other.
	// https://www.postgresql.org/docs/current/errcodes-appendix.html
	ofServer = `'08', '25', '26', '28', '3D', '40', '53', '57', '58', 'F0'`
)

// each returns the statement that settles or rejects rows one after another.
func each(settle, reject string) string {
	of := strings.NewReplacer("$1::uuid[]", "ARRAY[m.id]", "$2::bigint[]", "ARRAY[m.seq]", "$3::text[]", "ARRAY[m.failure]",
		"$4", "(given->>'attempts')::integer", "$5", "(given->>'first')::float8", "$6", "(given->>'longest')::float8")
	return strings.NewReplacer("{{settle}}", of.Replace(settle), "{{reject}}", of.Replace(reject)).Replace(markEach)
}
