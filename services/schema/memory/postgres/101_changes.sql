-- +goose Up
-- The state of a namespace's memories, for those who keep what they derived from it: docs/adr/0047-recall-cache.md.
--
-- Each transaction that changes memories inserts a row of its own, and deletes those that it sees of others, so none waits
-- for another. What a snapshot sees of these rows is seen by no snapshot with other memories: a row that comes goes only
-- together with the coming of a later one.
CREATE TABLE memory.changes (
    namespace text NOT NULL,
    writer    xid8 NOT NULL,
    PRIMARY KEY (namespace, writer)
) PARTITION BY HASH (namespace);
CREATE TABLE memory.changes_0 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE memory.changes_1 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE memory.changes_2 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE memory.changes_3 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE memory.changes_4 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE memory.changes_5 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE memory.changes_6 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE memory.changes_7 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- A namespace that is being deleted or renamed is no longer there by its old name.
-- +goose StatementBegin
CREATE FUNCTION memory.note_changes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed_in text[];
BEGIN
    WITH noted AS (
        INSERT INTO memory.changes (namespace, writer)
        SELECT n.name, pg_current_xact_id() FROM memory.namespaces n WHERE n.name IN (SELECT namespace FROM changed)
        ON CONFLICT DO NOTHING RETURNING namespace
    )
    SELECT array_agg(namespace) INTO changed_in FROM noted;
    IF changed_in IS NOT NULL THEN
        WITH earlier AS MATERIALIZED (
            SELECT namespace, writer FROM memory.changes
            WHERE namespace = ANY (changed_in) AND writer <> pg_current_xact_id() FOR UPDATE SKIP LOCKED
        )
        DELETE FROM memory.changes c USING earlier e WHERE c.namespace = e.namespace AND c.writer = e.writer;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION memory.note_changes FROM PUBLIC;
CREATE TRIGGER note_inserted AFTER INSERT ON memory.memories REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.note_changes();
CREATE TRIGGER note_updated AFTER UPDATE ON memory.memories REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.note_changes();
CREATE TRIGGER note_deleted AFTER DELETE ON memory.memories REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.note_changes();

SELECT memory.isolate('memory');
GRANT SELECT ON memory.changes TO triskele_memory;

-- +goose Down
DROP TRIGGER note_deleted ON memory.memories;
DROP TRIGGER note_updated ON memory.memories;
DROP TRIGGER note_inserted ON memory.memories;
DROP FUNCTION memory.note_changes();
DROP TABLE memory.changes;
