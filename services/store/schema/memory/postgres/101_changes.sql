-- +goose Up
-- The state of a namespace's memories, for those who keep what they derived from it: docs/adr/0023-quorum-and-cache.md.
--
-- Each transaction that changes memories writes its own number into a row that nobody else is writing, so none waits for
-- another; there are as many rows as there were writers at once. A number that was written over comes never back, so
-- snapshots that see the same numbers see the same memories. What is written over is in no index, so it leaves no trace there.
CREATE TABLE memory.changes (
    namespace text NOT NULL,
    lane      uuid NOT NULL DEFAULT gen_random_uuid(),
    writer    xid8 NOT NULL,
    PRIMARY KEY (namespace, lane)
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
CREATE FUNCTION memory.note_changes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    changed_in text;
BEGIN
    FOR changed_in IN SELECT name FROM memory.namespaces WHERE name IN (SELECT namespace FROM changed) LOOP
        CONTINUE WHEN EXISTS (SELECT FROM memory.changes WHERE namespace = changed_in AND writer = pg_current_xact_id());
        UPDATE memory.changes SET writer = pg_current_xact_id() WHERE namespace = changed_in AND lane = (
            SELECT lane FROM memory.changes WHERE namespace = changed_in ORDER BY lane LIMIT 1 FOR UPDATE SKIP LOCKED
        );
        IF NOT FOUND THEN
            INSERT INTO memory.changes (namespace, writer) VALUES (changed_in, pg_current_xact_id());
        END IF;
    END LOOP;
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
