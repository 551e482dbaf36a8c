-- +goose Up
CREATE SCHEMA lexical;

-- Apart from the memories, because a search reads tsvectors by the thousand: in the wide row they would be out of line.
-- Weights: A content and title, B expanded keywords, C tags, D category.
CREATE TABLE lexical.documents (
    namespace text     NOT NULL,
    memory_id uuid     NOT NULL,
    tsv       tsvector NOT NULL,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memory.memories (namespace, id) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE lexical.documents_0 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.documents_1 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.documents_2 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.documents_3 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.documents_4 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.documents_5 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.documents_6 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.documents_7 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- Every search reads the list of entries that are not merged in yet, so it is kept short; without it a write takes ten
-- times as long.
CREATE INDEX documents_tsv ON lexical.documents USING gin (tsv) WITH (gin_pending_list_limit = 256);

-- +goose Down
DROP SCHEMA lexical CASCADE;
