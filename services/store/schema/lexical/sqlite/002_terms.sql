-- +goose Up
-- Terms are now made by the program, by the same rules as on PostgreSQL, and separated by spaces; all that may be in
-- one is a token's character. The program indexes the memories that have no document when it opens the file.
CREATE TABLE lexical_settings (
    namespace TEXT    PRIMARY KEY,
    language  TEXT    NOT NULL,
    k1        REAL    NOT NULL CHECK (k1 BETWEEN 0 AND 10),
    b         REAL    NOT NULL CHECK (b BETWEEN 0 AND 1),
    prefix    INTEGER NOT NULL CHECK (prefix IN (0, 1)),
    scorer    TEXT    CHECK (scorer IN ('bm25', 'ts_rank')) -- NULL: as the leg is configured
) STRICT, WITHOUT ROWID;

DROP TRIGGER lexical_forget;
DELETE FROM lexical_documents;
DROP TABLE lexical_fts;
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

-- +goose Down
DROP TABLE lexical_vocabulary;
DROP TRIGGER lexical_forget;
DELETE FROM lexical_documents;
DROP TABLE lexical_fts;
DROP TABLE lexical_settings;
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
