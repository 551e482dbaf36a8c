-- +goose Up
CREATE TABLE namespaces (
    name       TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
) STRICT, WITHOUT ROWID;
INSERT INTO namespaces (name) VALUES ('default');

-- Ids are the 16 bytes of a UUID, times are microseconds since 1970, lists and metadata are JSON.
CREATE TABLE memories (
    namespace         TEXT    NOT NULL REFERENCES namespaces (name),
    id                BLOB    NOT NULL CHECK (length(id) = 16),
    content           TEXT    NOT NULL CHECK (length(CAST(content AS BLOB)) BETWEEN 1 AND 65536),
    title             TEXT    NOT NULL,
    expanded_keywords TEXT    NOT NULL CHECK (json_type(expanded_keywords) = 'array'),
    tags              TEXT    NOT NULL CHECK (json_type(tags) = 'array'),
    category          TEXT    NOT NULL,
    metadata          TEXT    NOT NULL CHECK (json_type(metadata) = 'object'),
    importance        REAL    NOT NULL CHECK (importance BETWEEN 0 AND 1),
    sensitive         INTEGER NOT NULL CHECK (sensitive IN (0, 1)),
    source            TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    occurred_at       INTEGER,
    expires_at        INTEGER,
    supersedes        BLOB,
    superseded_by     BLOB,
    revision          INTEGER NOT NULL CHECK (revision >= 1),
    idempotency_key   TEXT,
    PRIMARY KEY (namespace, id),
    -- The target of derived tables' foreign keys: a row derived from a sensitive memory cannot exist.
    UNIQUE (namespace, id, sensitive),
    UNIQUE (namespace, idempotency_key)
) STRICT;

CREATE INDEX memories_by_time ON memories (namespace, created_at DESC, id DESC);
CREATE INDEX memories_by_supersedes ON memories (namespace, supersedes) WHERE supersedes IS NOT NULL;

-- What each derived index still has to catch up with; see the PostgreSQL track.
CREATE TABLE index_queue (
    namespace   TEXT    NOT NULL,
    index_name  TEXT    NOT NULL,
    memory_id   BLOB    NOT NULL,
    sensitive   INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    revision    INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    not_before  INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    dead        INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT    NOT NULL DEFAULT '',
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, index_name),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX index_queue_due ON index_queue (index_name, not_before) WHERE NOT dead;

-- +goose StatementBegin
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM index_queue WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE index_queue;
DROP TABLE memories;
DROP TABLE namespaces;
