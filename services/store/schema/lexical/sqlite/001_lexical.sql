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

-- The index only: the texts are in memories. Its columns' weights are in the search.
CREATE VIRTUAL TABLE lexical_fts USING fts5 (
    content, keywords, tags, category,
    content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);

-- +goose StatementBegin
CREATE TRIGGER lexical_forget AFTER DELETE ON lexical_documents
BEGIN
    DELETE FROM lexical_fts WHERE rowid = OLD.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE lexical_documents;
DROP TABLE lexical_fts;
DROP TABLE lexical_namespaces;
