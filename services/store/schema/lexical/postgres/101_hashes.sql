-- +goose Up
-- Hashes of each memory's whole content and title, normalised by the program, to tell which memories a query quotes; the leg
-- may read neither. NULL where there are no words. A memory that a program of before stored has no row until it is
-- indexed again.
CREATE TABLE lexical.hashes (
    namespace text NOT NULL,
    memory_id uuid NOT NULL,
    content   bigint,
    title     bigint,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memory.memories (namespace, id) ON DELETE CASCADE
) PARTITION BY HASH (namespace);
CREATE TABLE lexical.hashes_0 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.hashes_1 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.hashes_2 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.hashes_3 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.hashes_4 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.hashes_5 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.hashes_6 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.hashes_7 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 7);
CREATE INDEX hashes_content ON lexical.hashes (namespace, content, memory_id) WHERE content IS NOT NULL;
CREATE INDEX hashes_title ON lexical.hashes (namespace, title, memory_id) WHERE title IS NOT NULL;

SELECT memory.isolate('lexical', '{lexical.documents}');
GRANT SELECT, INSERT, UPDATE ON lexical.hashes TO triskele_memory;
GRANT SELECT ON lexical.hashes TO triskele_lexical;

-- Whoever changes a text takes its hashes away; a program that knows of them writes new ones in the same transaction.
-- +goose StatementBegin
CREATE FUNCTION lexical.forget_hashes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM lexical.hashes WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION lexical.forget_hashes FROM PUBLIC;
CREATE TRIGGER forget_hashes AFTER UPDATE OF content, title ON memory.memories FOR EACH ROW
    WHEN (OLD.content IS DISTINCT FROM NEW.content OR OLD.title IS DISTINCT FROM NEW.title) EXECUTE FUNCTION lexical.forget_hashes();

-- +goose Down
DROP TRIGGER forget_hashes ON memory.memories;
DROP FUNCTION lexical.forget_hashes();
DROP TABLE lexical.hashes;
