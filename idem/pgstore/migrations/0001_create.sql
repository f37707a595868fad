-- The keys, one row each. Later migrations only add: a binary that knows an earlier version of this table can go on working
-- while newer ones are rolled out.
CREATE TABLE {{table}} (
    idempotency_key     text COLLATE "C" PRIMARY KEY, -- a backslash is doubled, a NUL is \0, as text can't hold one
    status              text        NOT NULL CHECK (status IN ('STARTED', 'COMPLETED', 'FAILED')),
    version             bigint      NOT NULL,         -- the fencing token
    owner               text        NOT NULL,
    lease_until         timestamptz NOT NULL,
    retry_at            timestamptz,                  -- set: released, not to be claimed before
    attempts            integer     NOT NULL,
    request_fingerprint bytea,
    response_payload    bytea,
    result_omitted      bigint      NOT NULL DEFAULT 0,
    failure_code        text,
    failure_message     text,
    failure_at          timestamptz,
    source              text        NOT NULL,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    expiry_timestamp    timestamptz NOT NULL,
    prune_after         timestamptz NOT NULL          -- not before expiry_timestamp. The claim sets it, and a completion leaves it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- For pruning. No other column that a completion changes has an index, so that it needs no new index entries (a HOT update),
-- for which the pages have room.
CREATE INDEX ON {{table}} (prune_after);
