-- +goose Up
CREATE SCHEMA memory;

CREATE TABLE memory.namespaces (
    name       text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO memory.namespaces (name) VALUES ('default');

CREATE TABLE memory.memories (
    namespace         text        NOT NULL REFERENCES memory.namespaces (name),
    id                uuid        NOT NULL,
    content           text        NOT NULL CHECK (octet_length(content) BETWEEN 1 AND 65536),
    title             text        NOT NULL,
    expanded_keywords text[]      NOT NULL,
    tags              text[]      NOT NULL,
    category          text        NOT NULL,
    metadata          jsonb       NOT NULL CHECK (jsonb_typeof(metadata) = 'object'),
    importance        float8      NOT NULL CHECK (importance BETWEEN 0 AND 1),
    sensitive         boolean     NOT NULL,
    source            text        NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    occurred_at       timestamptz,
    expires_at        timestamptz,
    supersedes        uuid,
    superseded_by     uuid,
    revision          bigint      NOT NULL CHECK (revision >= 1),
    idempotency_key   text,
    PRIMARY KEY (namespace, id),
    -- The target of derived tables' foreign keys: a row derived from a sensitive memory cannot exist.
    UNIQUE (namespace, id, sensitive),
    UNIQUE (namespace, idempotency_key)
) PARTITION BY HASH (namespace);

CREATE TABLE memory.memories_0 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE memory.memories_1 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE memory.memories_2 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE memory.memories_3 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE memory.memories_4 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE memory.memories_5 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE memory.memories_6 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE memory.memories_7 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX memories_by_time ON memory.memories (namespace, created_at DESC, id DESC);
CREATE INDEX memories_by_supersedes ON memory.memories (namespace, supersedes) WHERE supersedes IS NOT NULL;

-- What each derived index still has to catch up with. A row per memory and index, so that several changes of one
-- memory coalesce; not_before doubles as the lease of the worker that claimed it.
CREATE TABLE memory.index_queue (
    namespace   text        NOT NULL,
    index_name  text        NOT NULL,
    memory_id   uuid        NOT NULL,
    sensitive   boolean     NOT NULL DEFAULT false CHECK (NOT sensitive),
    revision    bigint      NOT NULL,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    not_before  timestamptz NOT NULL DEFAULT now(),
    attempts    integer     NOT NULL DEFAULT 0,
    dead        boolean     NOT NULL DEFAULT false,
    last_error  text        NOT NULL DEFAULT '',
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, index_name),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
);
CREATE INDEX index_queue_due ON memory.index_queue (index_name, not_before) WHERE NOT dead;

-- +goose StatementBegin
CREATE FUNCTION memory.purge_queue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memory.index_queue WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION memory.purge_queue();

-- +goose Down
DROP SCHEMA memory CASCADE;
