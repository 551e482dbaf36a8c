-- +goose Up
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

-- +goose Down
DELETE FROM indexes WHERE name = 'curation';
DROP TRIGGER decisions_go;
DROP TRIGGER decisions_follow;
DROP TRIGGER purge_decisions;
DROP TABLE curation_decisions;
