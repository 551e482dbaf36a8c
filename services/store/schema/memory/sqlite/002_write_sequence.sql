-- +goose Up
-- See the PostgreSQL track for what these are.
ALTER TABLE memories ADD COLUMN links TEXT NOT NULL DEFAULT '[]' CHECK (json_type(links) = 'array');
ALTER TABLE memories ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;

CREATE TABLE write_sequence (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO write_sequence (last) VALUES (0);

CREATE TABLE indexes (
    name      TEXT    NOT NULL,
    sensitive INTEGER NOT NULL CHECK (sensitive IN (0, 1)),
    PRIMARY KEY (name, sensitive)
) STRICT, WITHOUT ROWID;
INSERT INTO indexes (name, sensitive) VALUES ('dense', 0), ('graph', 0);

-- A constraint cannot be replaced in place.
DROP TRIGGER purge_queue;
ALTER TABLE index_queue RENAME TO old_index_queue;
CREATE TABLE index_queue (
    namespace   TEXT    NOT NULL,
    index_name  TEXT    NOT NULL,
    memory_id   BLOB    NOT NULL,
    sensitive   INTEGER NOT NULL DEFAULT 0,
    revision    INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    not_before  INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    dead        INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT    NOT NULL DEFAULT '',
    sequence    INTEGER NOT NULL DEFAULT 0,
    since       INTEGER NOT NULL DEFAULT 0,
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, index_name),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (index_name, sensitive) REFERENCES indexes (name, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO index_queue (namespace, index_name, memory_id, sensitive, revision, enqueued_at, not_before, attempts, dead, last_error)
SELECT namespace, index_name, memory_id, sensitive, revision, enqueued_at, not_before, attempts, dead, last_error FROM old_index_queue;
DROP TABLE old_index_queue;
CREATE INDEX index_queue_due ON index_queue (index_name, not_before) WHERE NOT dead;
CREATE INDEX index_queue_since ON index_queue (namespace, index_name, since);

-- +goose StatementBegin
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive <> OLD.sensitive
BEGIN
    DELETE FROM index_queue WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- +goose Down
DELETE FROM index_queue WHERE sensitive OR index_name NOT IN ('dense', 'graph');
DROP TRIGGER purge_queue;
ALTER TABLE index_queue RENAME TO new_index_queue;
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
    PRIMARY KEY (namespace, memory_id, index_name),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO index_queue SELECT namespace, index_name, memory_id, sensitive, revision, enqueued_at, not_before, attempts, dead, last_error FROM new_index_queue;
DROP TABLE new_index_queue;
CREATE INDEX index_queue_due ON index_queue (index_name, not_before) WHERE NOT dead;
-- +goose StatementBegin
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM index_queue WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd
DROP TABLE indexes;
DROP TABLE write_sequence;
ALTER TABLE memories DROP COLUMN links;
ALTER TABLE memories DROP COLUMN sequence;
