-- +goose Up
-- Numbers namespaces, so that the rowids of one namespace's documents are a range: number * 2^40 and what follows.
CREATE TABLE lexical_namespaces (
    number INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 8388607),
    name   TEXT NOT NULL UNIQUE REFERENCES namespaces (name)
) STRICT;

CREATE TABLE lexical_documents (
    id        INTEGER PRIMARY KEY, -- the rowid in lexical_fts
    namespace TEXT    NOT NULL,
    memory_id BLOB    NOT NULL,
    UNIQUE (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memories (namespace, id) ON DELETE CASCADE
) STRICT;

-- What a namespace's index is made and searched with; without a row the defaults hold.
CREATE TABLE lexical_settings (
    namespace TEXT    PRIMARY KEY,
    language  TEXT    NOT NULL,
    k1        REAL    NOT NULL CHECK (k1 BETWEEN 0 AND 10),
    b         REAL    NOT NULL CHECK (b BETWEEN 0 AND 1),
    prefix    INTEGER NOT NULL CHECK (prefix IN (0, 1)),
    scorer    TEXT    CHECK (scorer IN ('bm25', 'ts_rank')) -- NULL: as the leg is configured
) STRICT, WITHOUT ROWID;

-- The index only: the texts are in memories. Its columns' weights are in the search. Terms are made by the program, by the
-- same rules as on PostgreSQL, and separated by spaces; all that may be in one is a token's character.
CREATE VIRTUAL TABLE lexical_fts USING fts5 (
    content, keywords, tags, category,
    content = '', contentless_delete = 1, tokenize = "ascii tokenchars '._-/\:@+'"
);
CREATE VIRTUAL TABLE lexical_vocabulary USING fts5vocab (lexical_fts, row);

-- +goose StatementBegin
CREATE TRIGGER lexical_forget AFTER DELETE ON lexical_documents
BEGIN
    DELETE FROM lexical_fts WHERE rowid = OLD.id;
END;
-- +goose StatementEnd

-- See the memory track. The full-text index knows a namespace by its number, which stays.
-- +goose StatementBegin
CREATE TRIGGER lexical_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE lexical_namespaces SET name = NEW.name WHERE name = OLD.name;
    UPDATE lexical_documents SET namespace = NEW.name WHERE namespace = OLD.name;
    DELETE FROM lexical_settings WHERE namespace = NEW.name; -- may be there before the namespace
    UPDATE lexical_settings SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM lexical_documents WHERE namespace = OLD.name;
    DELETE FROM lexical_namespaces WHERE name = OLD.name;
    DELETE FROM lexical_settings WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- Hashes of each memory's whole content and title, as on PostgreSQL.
CREATE TABLE lexical_hashes (
    namespace TEXT NOT NULL,
    memory_id BLOB NOT NULL,
    content   INTEGER,
    title     INTEGER,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memories (namespace, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX lexical_hashes_content ON lexical_hashes (namespace, content, memory_id) WHERE content IS NOT NULL;
CREATE INDEX lexical_hashes_title ON lexical_hashes (namespace, title, memory_id) WHERE title IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER lexical_forget_hashes AFTER UPDATE OF content, title ON memories
WHEN OLD.content IS NOT NEW.content OR OLD.title IS NOT NEW.title
BEGIN
    DELETE FROM lexical_hashes WHERE namespace = NEW.namespace AND memory_id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_hashes_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE lexical_hashes SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_hashes_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM lexical_hashes WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
