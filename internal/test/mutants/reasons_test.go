//go:build mutants

package mutants_test

const (
	capacity    = "a capacity: only allocations change"
	instant     = "only the microsecond in which the times are equal differs"
	inTake      = "the relay also holds back what it has read behind a row without an id, which costs reads"
	sizeOfLarge = "its size only bounds how many such results are read together"
	largest     = "an event of exactly this size is too large with the overhead of its record: the producer rejects it"
	noNil       = "a parameter that is nil is not sent by the SDK, and append puts the others behind it"
)

// reasons says for each mutant that no test detects why its behaviour is the same.
var reasons = map[string]map[string]string{
	"idem/dynamostore/expression.go": {
		"settleChange: Status: store.StatusStarted => ": "store.Settled does not read the status, and settleChange does not write that of the empty entry",
		"expression: 12 => 13":                          capacity,
		"expression: 16 => 17":                          capacity,
	},
	"idem/dynamostore/statement.go": {
		"insertStatement: b.Grow(320) => ": capacity,
		"insertStatement: 320 => 321":      capacity,
		"statement: b.Grow(512) => ":       capacity,
		"statement: 512 => 513":            capacity,
		"statement: 0 => 1":                noNil,
		"statement: + => -":                capacity,
		"statement: 1 => 2":                capacity,
	},
	"idem/pgstore/statements.go": {
		"SELECT idempotency_key FROM {table} WHERE prune_after <= {now} ORDER BY prune_after LIMIT …: <= => <": "an entry that expires in this millisecond is pruned later",
		"AND ($3::timestamptz IS NULL OR updated_at < $3) ORDER BY idempotency_key LIMIT $4: < => <=":          "List leaves out by store.ListQuery.Matches what a page has too much",
		"completeAll: fill(clockCTE + completeMany + ` SELECT 1 / (count(*) = cardinality($1))::int…: 1 => 2":  "the quotient is not read",
	},
	"outbox/pgoutbox/statements.go": {
		"const ready = `o.published_at IS NULL AND o.parked_at IS NULL AND (o.retry_at IS NULL OR o…: <= => <":                               instant,
		"AND b.retry_at IS NOT NULL AND b.published_at IS NULL AND b.parked_at IS NULL AND b.retry_…: > => >=":                               instant,
		"WHERE published_at < clock_timestamp() - make_interval(secs => $1) ORDER BY published_at L…: < => <=":                               instant,
		"AND b.retry_at IS NOT NULL AND b.published_at IS NULL AND b.parked_at IS NULL AND b.retry_…: NULL => NOT NULL":                      inTake,
		"AND b.retry_at IS NOT NULL AND b.published_at IS NULL AND b.parked_at IS NULL AND b.retry_…: AND b.published_at IS NULL => nothing": "an event is published after its retry time",
		"AND b.retry_at IS NOT NULL AND b.published_at IS NULL AND b.parked_at IS NULL AND b.retry_…: NOT NULL => NULL":                      inTake,
		"AND NOT EXISTS (SELECT FROM {{table}} b WHERE sha256(b.aggregateid) = sha256(o.aggregateid…: < => <=":                               "an event whose own retry time is not reached is not ready in any case",
		"topicAndKey = `CASE WHEN ` + named + ` <= {{largest}} THEN aggregatetype ELSE left(aggrega…: <= => <":                               largest,
		"CASE WHEN ` + named + ` <= {{largest}} THEN aggregateid ELSE substr(aggregateid, 1, 1000) …: <= => <":                               largest,
		"CASE WHEN ` + named + ` <= {{largest}} THEN aggregateid ELSE substr(aggregateid, 1, 1000) …: 1 => 2":                                "of a key that is too large any part will do",
		"SELECT id::text, ` + topicAndKey + `, CASE WHEN size <= {{largest}} THEN payload END, CASE…: <= => <":                               largest,
		"SELECT id::text, ` + topicAndKey + `, CASE WHEN size <= {{largest}} THEN payload END, CASE…: <= => < #2":                            largest,
		"+ CASE WHEN pg_column_size(headers) > 10000 THEN octet_length(headers::text) ELSE 0 END AS…: > => >=":                               "headers of exactly this size are measured too",
		"+ CASE WHEN pg_column_size(headers) > 10000 THEN octet_length(headers::text) ELSE 0 END AS…: 0 => 1":                                largest,
		"WHERE o.shard = s.shard AND {{pending}} AND o.seq < s.last ORDER BY seq OFFSET 0) AS o: < => <=":                                    "the last row is one of those that were taken",
		"WHERE o.shard = s.shard AND {{pending}} AND o.seq < s.last ORDER BY seq OFFSET 0) AS o: AND o.seq < s.last => nothing":              "a row behind all that was taken holds back none of it",
		"SELECT created_at FROM {{table}} o WHERE o.shard = shard.shard::smallint AND {{pending}} O…: 1 => 2":                                "the oldest of more rows is the same",
		"SELECT created_at FROM {{table}} o WHERE o.shard = shard.shard::smallint AND {{pending}} O…: = => <>":                               "the oldest row of a shard is one of the rows of all others; only the plan differs",
		"WHERE published_at < clock_timestamp() - make_interval(secs => $1) ORDER BY published_at L…: SKIP LOCKED => nothing":                "a row that another session has locked is deleted when it is free, or later",
	},
	"idem/redisstore/lua/settle.lua": {
		"if lease >= till then: >= => >": "an extension to the same end of the lease is not written: only the time of the update differs",
	},
	"idem/redisstore/lua/each.lua": {
		"if not ok and type(answer) ~= 'table' then answer = {err = answer} end: and => or": "the servers of the tests raise errors as strings; " +
			"a server that raises them as tables is not among them",
	},
	"idem/redisstore/lua/prelude.lua": {
		"if kind == COMPLETED and #value - tail >= $LARGE then value, large = sub(value, 1, tail - …: - => + #3": sizeOfLarge,
		"if kind == COMPLETED and #value - tail >= $LARGE then value, large = sub(value, 1, tail - …: - => + #2": "two bytes of the result are replaced by the whole, which is read separately",
		"if kind == COMPLETED and #value - tail >= $LARGE then value, large = sub(value, 1, tail - …: + => -":    sizeOfLarge,
	},
	"idem/dynamostore/schema.go": {
		"attributes: 16 => 17": capacity,
	},
}
