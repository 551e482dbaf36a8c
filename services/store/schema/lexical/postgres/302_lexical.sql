-- +goose Up
CREATE SCHEMA lexical;

-- The words of each memory. terms is the forward index that legs load into memory; services/lexical/document.go describes its
-- format, which is the same on SQLite. tsv has the same words for ts_rank. Weights: A content and title, B expanded keywords,
-- C tags, D category and stop words.
CREATE TABLE lexical.documents (
    namespace text     NOT NULL,
    memory_id uuid     NOT NULL,
    tsv       tsvector NOT NULL,
    terms     bytea    NOT NULL,
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

-- Every search by ts_rank reads the list of entries that are not merged in yet, so it is kept short; without it a write takes
-- ten times as long.
CREATE INDEX documents_tsv ON lexical.documents USING gin (tsv) WITH (gin_pending_list_limit = 256);

-- What a namespace's index is made and searched with; without a row the defaults hold.
CREATE TABLE lexical.settings (
    namespace text    PRIMARY KEY,
    language  text    NOT NULL,
    k1        float8  NOT NULL CHECK (k1 BETWEEN 0 AND 10),
    b         float8  NOT NULL CHECK (b BETWEEN 0 AND 1),
    prefix    boolean NOT NULL,
    scorer    text    CHECK (scorer IN ('bm25', 'ts_rank')) -- NULL: as the leg is configured
);

GRANT SELECT ON schema_version_lexical TO triskele_memory, triskele_lexical;
GRANT USAGE ON SCHEMA lexical TO triskele_memory, triskele_lexical;
GRANT SELECT ON ALL TABLES IN SCHEMA lexical TO triskele_memory, triskele_lexical;
GRANT INSERT, UPDATE, DELETE ON lexical.documents TO triskele_memory;
GRANT INSERT, UPDATE ON lexical.settings TO triskele_memory;

-- See the memory track: the index follows its namespace. The new name may have settings already.
-- +goose StatementBegin
CREATE FUNCTION lexical.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM lexical.settings WHERE namespace = NEW.name;
        PERFORM memory.copy_rows('lexical.settings', OLD.name, NEW.name);
        PERFORM memory.copy_rows('lexical.documents', OLD.name, NEW.name);
    END IF;
    DELETE FROM lexical.settings WHERE namespace = OLD.name;
    DELETE FROM lexical.documents WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION lexical.follow_namespace FROM PUBLIC;
CREATE TRIGGER follow_2_lexical AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION lexical.follow_namespace();

-- No policy on documents: only leakproof operators may come before a policy, the matching of a tsvector is none, and so
-- each search by ts_rank would read the whole namespace instead of the GIN index. Its hits become memories, which have a
-- policy.
SELECT memory.isolate('lexical', '{lexical.documents}');

-- What the leg loads into memory, by namespace and id, has its lock here: without one it would read other namespaces' words.
CREATE VIEW lexical.terms WITH (security_barrier) AS
SELECT namespace, memory_id, terms FROM lexical.documents
WHERE CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END;
GRANT SELECT ON lexical.terms TO triskele_lexical;
