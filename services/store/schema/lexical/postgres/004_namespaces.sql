-- +goose Up
-- See the memory track: the index follows its namespace. Entries are copied before the documents and deleted before
-- them, so that the documents' triggers find nothing to do. What the new name may have had is settings and no more.
-- +goose StatementBegin
CREATE FUNCTION lexical.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t regclass;
BEGIN
    FOR t IN
        SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
        WHERE c.relnamespace = 'lexical'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        ORDER BY c.oid = 'lexical.documents'::regclass
    LOOP
        IF TG_OP = 'UPDATE' THEN
            EXECUTE format('DELETE FROM %s WHERE namespace = $1', t) USING NEW.name;
            PERFORM memory.copy_rows(t, OLD.name, NEW.name);
        END IF;
        EXECUTE format('DELETE FROM %s WHERE namespace = $1', t) USING OLD.name;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION lexical.follow_namespace FROM PUBLIC;
CREATE TRIGGER follow_2_lexical AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION lexical.follow_namespace();

-- +goose Down
DROP TRIGGER follow_2_lexical ON memory.namespaces;
DROP FUNCTION lexical.follow_namespace();
