-- +goose Up
-- See the PostgreSQL track.
CREATE TABLE graph_extractions (
    namespace    TEXT    NOT NULL,
    memory_id    BLOB    NOT NULL,
    sensitive    INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    digest       INTEGER NOT NULL,
    model        TEXT    NOT NULL,
    facts        INTEGER NOT NULL CHECK (facts >= 0),
    tokens       INTEGER NOT NULL CHECK (tokens >= 0),
    extracted_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER graph_extraction_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_extractions WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_extraction_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE graph_extractions SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_extraction_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM graph_extractions WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER graph_extraction_go;
DROP TRIGGER graph_extraction_follow;
DROP TRIGGER graph_extraction_purge;
DELETE FROM indexes WHERE name = 'extraction';
DROP TABLE graph_extractions;
