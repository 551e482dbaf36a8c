-- +goose Up
-- A namespace is renamed by changing its row and forgotten by deleting it. A trigger of each track then brings the
-- track's rows along, whole tables at a time and not memory by memory. They fire in the order of their names: memories
-- are copied first and deleted last, with what other tracks derive from them in between. Rows are copied because the
-- name decides in which partition they are.

-- For the rows to follow before the key is checked.
ALTER TABLE memory.memories ALTER CONSTRAINT memories_namespace_fkey DEFERRABLE INITIALLY IMMEDIATE;

-- Names in the order of their bytes, whatever the database's collation, as on SQLite.
CREATE INDEX namespaces_by_name ON memory.namespaces (name COLLATE "C");

-- Copies a table's rows of one namespace to another: all columns there are, so that one added later is not forgotten,
-- but for those that get their default.
-- +goose StatementBegin
CREATE FUNCTION memory.copy_rows(source regclass, old text, new text, but_for text[] DEFAULT '{}') RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text := (
        SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
        WHERE attrelid = source AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'namespace' AND attname <> ALL (but_for)
    );
BEGIN
    EXECUTE format('INSERT INTO %1$s (namespace, %2$s) SELECT $2, %2$s FROM %1$s WHERE namespace = $1', source, columns) USING old, new;
END $$;
-- +goose StatementEnd

-- The tables of this track that have rows of a namespace, besides the memories.
-- +goose StatementBegin
CREATE FUNCTION memory.beside_memories() RETURNS SETOF regclass LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
    WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.oid <> 'memory.memories'::regclass
$$;
-- +goose StatementEnd

-- Whoever is changing a memory is waited for, and whoever comes later finds it gone.
-- +goose StatementBegin
CREATE FUNCTION memory.copy_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside regclass;
BEGIN
    PERFORM FROM memory.memories WHERE namespace = OLD.name ORDER BY id FOR UPDATE;
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('memory.memories', OLD.name, NEW.name);
        FOR beside IN SELECT * FROM memory.beside_memories() LOOP
            PERFORM memory.copy_rows(beside, OLD.name, NEW.name);
        END LOOP;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION memory.empty_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside regclass;
BEGIN
    FOR beside IN SELECT * FROM memory.beside_memories() LOOP
        EXECUTE format('DELETE FROM %s WHERE namespace = $1', beside) USING OLD.name;
    END LOOP;
    DELETE FROM memory.memories WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_1_memory AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION memory.copy_namespace();
CREATE TRIGGER follow_3_memory AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION memory.empty_namespace();

-- +goose Down
DROP TRIGGER follow_3_memory ON memory.namespaces;
DROP TRIGGER follow_1_memory ON memory.namespaces;
DROP FUNCTION memory.empty_namespace();
DROP FUNCTION memory.copy_namespace();
DROP FUNCTION memory.beside_memories();
DROP FUNCTION memory.copy_rows(regclass, text, text, text[]);
DROP INDEX memory.namespaces_by_name;
ALTER TABLE memory.memories ALTER CONSTRAINT memories_namespace_fkey NOT DEFERRABLE;
