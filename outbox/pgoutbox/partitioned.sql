-- Divides the table outbox into partitions by the time of writing, so that published events are removed by dropping partitions instead of
-- by DELETE and VACUUM. Run it once, after idemsk relay --migrate, as the table's owner; then run outbox_partitions on a schedule.
-- docs/outbox.md describes it. It needs PostgreSQL 14. For another table than outbox replace the name everywhere.
BEGIN;

ALTER TABLE outbox RENAME TO outbox_before;
CREATE TABLE outbox (LIKE outbox_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE) PARTITION BY RANGE (created_at);
CREATE SEQUENCE outbox_seq OWNED BY outbox.seq; -- identity columns of partitioned tables need PostgreSQL 17
SELECT setval('outbox_seq', coalesce(max(seq), 0) + 1, false) FROM outbox_before;
ALTER TABLE outbox ALTER seq SET DEFAULT nextval('outbox_seq');

-- The indexes of the migrations.
CREATE INDEX ON outbox (id);
CREATE INDEX ON outbox (shard, seq) WHERE published_at IS NULL AND parked_at IS NULL;
CREATE INDEX ON outbox (sha256(aggregateid), seq) WHERE retry_at IS NOT NULL AND published_at IS NULL AND parked_at IS NULL;
CREATE INDEX ON outbox (published_at) WHERE published_at IS NOT NULL;
CREATE INDEX ON outbox (parked_at) WHERE parked_at IS NOT NULL;
CREATE TRIGGER wake_relays AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION outbox_wake();

-- The events for which there is no other partition. Writers do not fail if nobody makes partitions.
CREATE TABLE outbox_rest PARTITION OF outbox DEFAULT;

INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, seq, created_at, attempts, failure, retry_at, parked_at)
SELECT id, aggregatetype, aggregateid, type, payload, headers, seq, created_at, attempts, failure, retry_at, parked_at
FROM outbox_before WHERE published_at IS NULL;

-- outbox_partitions makes the partition of now and those of the next times, `ahead` of them. It drops (archive: detaches) each partition
-- whose last event was written longer than `keep` ago, if all its events were published. It returns a line for each partition.
--
-- It locks the table for milliseconds, and gives up if it would have to wait for more than a second. So no transaction that writes to a
-- partition is open when the partition is checked for the last time.
CREATE FUNCTION outbox_partitions(ahead integer, keep interval, archive boolean DEFAULT false, width interval DEFAULT '1 day') RETURNS SETOF text
LANGUAGE plpgsql SET lock_timeout = '1s' SET timezone = 'UTC' AS $$
DECLARE
    first timestamptz := date_bin(width, clock_timestamp(), '2000-01-01 00:00Z');
    lower timestamptz;
    part  text;
    done  boolean;
    -- Both conditions have an index.
    check_sql constant text := 'SELECT NOT EXISTS (SELECT FROM %1$I WHERE published_at IS NULL AND parked_at IS NULL)
        AND NOT EXISTS (SELECT FROM %1$I WHERE parked_at IS NOT NULL AND published_at IS NULL)';
BEGIN
    FOR n IN 0..ahead LOOP
        lower := first + n * width;
        part := 'outbox_' || to_char(lower, 'YYYYMMDDHH24MISS');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE %I PARTITION OF outbox FOR VALUES FROM (%L) TO (%L) WITH (autovacuum_vacuum_scale_factor = 0.02,
                autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)', part, lower, lower + width);
            EXECUTE format('CREATE UNIQUE INDEX ON %I (id)', part);
            RETURN NEXT 'made ' || part;
        EXCEPTION
            WHEN check_violation THEN RETURN NEXT 'not made: ' || part || ', whose first events are in outbox_rest';
            WHEN lock_not_available THEN
                RETURN NEXT 'not made: ' || part || ', because the table is in use';
                EXIT; -- writers have waited for a second
        END;
    END LOOP;
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox'::regclass
            AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(.*)''\)')::timestamptz < clock_timestamp() - keep ORDER BY 1
    LOOP
        EXECUTE format(check_sql, part) INTO done;
        IF NOT done THEN
            RETURN NEXT 'kept ' || part || ', which has events that were not published';
            CONTINUE;
        END IF;
        BEGIN
            LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE;
            EXECUTE format(check_sql, part) INTO done; -- sees what committed before the lock
            CONTINUE WHEN NOT done;
            EXECUTE format('ALTER TABLE outbox DETACH PARTITION %I', part);
            IF NOT archive THEN
                EXECUTE format('DROP TABLE %I', part);
            END IF;
            RETURN NEXT CASE WHEN archive THEN 'detached ' ELSE 'dropped ' END || part;
        EXCEPTION WHEN lock_not_available THEN
            RETURN NEXT 'kept ' || part || ', because the table is in use';
            EXIT; -- writers have waited for a second
        END;
    END LOOP;
END $$;

COMMIT;
