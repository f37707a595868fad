-- The events, one row each. The columns id, aggregatetype, aggregateid, type and payload are those that Debezium's outbox
-- event router looks for. Later migrations only add.
CREATE TABLE {{table}} (
    id            uuid PRIMARY KEY,
    aggregatetype text        NOT NULL CHECK (aggregatetype <> ''), -- the topic
    aggregateid   bytea,                                            -- the record's key
    type          text        NOT NULL DEFAULT '',                  -- the value of the header event-type, for readers
    payload       bytea,                                            -- the record's value; NULL is a tombstone
    headers       jsonb,                                            -- [{"key":…,"value":…}], or "base64" where the value is no text
    seq           bigint      GENERATED ALWAYS AS IDENTITY,         -- the order of events of one topic and key
    shard         smallint    GENERATED ALWAYS AS                   -- what has one key is in one shard
                  (get_byte(sha256(coalesce(aggregateid, uuid_send(id))), 0) & 63) STORED,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at  timestamptz,
    attempts      integer     NOT NULL DEFAULT 0,                   -- how often Kafka rejected it
    failure       text,                                             -- why, last
    retry_at      timestamptz,                                      -- when it may be tried again
    parked_at     timestamptz                                       -- when it was given up
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- What is to be published.
CREATE INDEX ON {{table}} (shard, seq) WHERE published_at IS NULL AND parked_at IS NULL;

-- What holds up its key: one event of a topic and key, seldom more. An entry of an index has at most 2704 bytes, and a key may have more.
CREATE INDEX ON {{table}} (sha256(aggregateid), seq) WHERE retry_at IS NOT NULL AND published_at IS NULL AND parked_at IS NULL;

-- For pruning, and for listing parked events.
CREATE INDEX ON {{table}} (published_at) WHERE published_at IS NOT NULL;
CREATE INDEX ON {{table}} (parked_at) WHERE parked_at IS NOT NULL;

-- A relay with nothing to do holds the advisory lock (oid of the table, -1), shared, and listens. NOTIFY makes the commits of a
-- database wait for each other, so it is left out while no relay waits for it.
CREATE FUNCTION {{wake}}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_try_advisory_lock(TG_RELID::integer, -1) THEN
        PERFORM pg_advisory_unlock(TG_RELID::integer, -1);
    ELSE
        PERFORM pg_notify('outbox_' || TG_RELID, '');
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER wake_relays AFTER INSERT ON {{table}} FOR EACH STATEMENT EXECUTE FUNCTION {{wake}}();
