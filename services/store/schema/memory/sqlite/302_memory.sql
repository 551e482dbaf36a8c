-- +goose Up
CREATE TABLE namespaces (
    name       TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    changes    INTEGER NOT NULL DEFAULT 0, -- of its memories, so far
    epoch      TEXT    NOT NULL DEFAULT (hex(randomblob(16))) -- another one is another namespace of the same name
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
    links             TEXT    NOT NULL DEFAULT '[]' CHECK (json_type(links) = 'array'),
    sequence          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, id),
    -- The target of derived tables' foreign keys: a row derived from a sensitive memory cannot exist.
    UNIQUE (namespace, id, sensitive),
    UNIQUE (namespace, idempotency_key)
) STRICT;

CREATE INDEX memories_by_time ON memories (namespace, created_at DESC, id DESC);
CREATE INDEX memories_by_supersedes ON memories (namespace, supersedes) WHERE supersedes IS NOT NULL;

-- See the PostgreSQL track for what these are.
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

-- What each derived index still has to catch up with; see the PostgreSQL track.
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
CREATE INDEX index_queue_due ON index_queue (index_name, not_before) WHERE NOT dead;
CREATE INDEX index_queue_since ON index_queue (namespace, index_name, since);

-- +goose StatementBegin
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive <> OLD.sensitive
BEGIN
    DELETE FROM index_queue WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- See the PostgreSQL track for what these are.
CREATE TABLE curation_decisions (
    namespace       TEXT    NOT NULL,
    id              BLOB    NOT NULL CHECK (length(id) = 16),
    memory_id       BLOB    NOT NULL,
    memory_revision INTEGER NOT NULL,
    target_id       BLOB,
    target_revision INTEGER NOT NULL,
    sensitive       INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    action          TEXT    NOT NULL CHECK (action IN ('add', 'update', 'supersede', 'noop')),
    memory_after    INTEGER NOT NULL,
    target_after    INTEGER NOT NULL,
    content_before  TEXT    NOT NULL,
    content_after   TEXT    NOT NULL,
    model           TEXT    NOT NULL,
    decided_at      INTEGER NOT NULL,
    reverted_at     INTEGER,
    PRIMARY KEY (namespace, id),
    UNIQUE (namespace, memory_id, memory_revision),
    CHECK ((action = 'add') = (target_id IS NULL)),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (namespace, target_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT;

CREATE INDEX curation_decisions_by_time ON curation_decisions (namespace, decided_at DESC, id DESC);
CREATE INDEX curation_decisions_by_target ON curation_decisions (namespace, target_id) WHERE target_id IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER purge_decisions BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM curation_decisions WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM curation_decisions WHERE namespace = OLD.namespace AND target_id = OLD.id;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER decisions_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE curation_decisions SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER decisions_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM curation_decisions WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- A namespace is renamed by changing its row and forgotten by deleting it; triggers of each track bring the track's rows
-- along, in any order: foreign keys are checked at the end of the statement.
-- +goose StatementBegin
CREATE TRIGGER memories_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE namespaces SET epoch = hex(randomblob(16)) WHERE name = NEW.name;
    DELETE FROM log WHERE namespace = OLD.name;
    UPDATE memories SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE index_queue SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER memories_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM index_queue WHERE namespace = OLD.name;
    DELETE FROM memories WHERE namespace = OLD.name;
    DELETE FROM log WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

CREATE INDEX memories_by_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL;

-- Which memories changed, for those who keep a copy in memory (package replica). Numbers are in the order of commits. A row is no
-- more than an id; the oldest are removed, up to the floor.
CREATE TABLE log (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    memory_id BLOB NOT NULL,
    part      TEXT NOT NULL -- m: the memory and its words, d: its vectors, g: its graph
) STRICT;
CREATE TABLE log_floor (
    floor INTEGER NOT NULL
) STRICT;
INSERT INTO log_floor (floor) VALUES (0);
-- +goose StatementBegin
CREATE TRIGGER log_prune AFTER INSERT ON log WHEN NEW.seq % 1000 = 0 AND NEW.seq > 100000
BEGIN
    DELETE FROM log WHERE seq <= NEW.seq - 100000;
    UPDATE log_floor SET floor = NEW.seq - 100000;
END;
-- +goose StatementEnd

-- Counts how often the memories of a namespace have changed; see the PostgreSQL track for what it is for.
-- +goose StatementBegin
CREATE TRIGGER count_inserted AFTER INSERT ON memories
BEGIN
    UPDATE namespaces SET changes = changes + 1 WHERE name = NEW.namespace;
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.id, 'm' FROM namespaces WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER count_updated AFTER UPDATE ON memories
BEGIN
    UPDATE namespaces SET changes = changes + 1 WHERE name = NEW.namespace;
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.id, 'm' FROM namespaces WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER count_deleted AFTER DELETE ON memories
BEGIN
    UPDATE namespaces SET changes = changes + 1 WHERE name = OLD.namespace;
    INSERT INTO log (namespace, memory_id, part) SELECT name, OLD.id, 'm' FROM namespaces WHERE name = OLD.namespace;
END;
-- +goose StatementEnd
