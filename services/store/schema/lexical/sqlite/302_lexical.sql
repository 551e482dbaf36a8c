-- +goose Up
-- The words of each memory: the forward index that legs load into memory, in the same format as on PostgreSQL.
CREATE TABLE lexical_documents (
    namespace TEXT NOT NULL,
    memory_id BLOB NOT NULL,
    terms     BLOB NOT NULL,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memories (namespace, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What a namespace's index is made and searched with; without a row the defaults hold.
CREATE TABLE lexical_settings (
    namespace TEXT    PRIMARY KEY,
    language  TEXT    NOT NULL,
    k1        REAL    NOT NULL CHECK (k1 BETWEEN 0 AND 10),
    b         REAL    NOT NULL CHECK (b BETWEEN 0 AND 1),
    prefix    INTEGER NOT NULL CHECK (prefix IN (0, 1)),
    scorer    TEXT    CHECK (scorer IN ('bm25', 'ts_rank')) -- NULL: as the leg is configured
) STRICT, WITHOUT ROWID;

-- See the memory track.
-- +goose StatementBegin
CREATE TRIGGER lexical_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE lexical_documents SET namespace = NEW.name WHERE namespace = OLD.name;
    DELETE FROM lexical_settings WHERE namespace = NEW.name; -- may be there before the namespace
    UPDATE lexical_settings SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM lexical_documents WHERE namespace = OLD.name;
    DELETE FROM lexical_settings WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
