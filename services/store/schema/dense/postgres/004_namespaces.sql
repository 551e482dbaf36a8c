-- +goose Up
-- See the memory track: the vectors follow their namespace.
-- +goose StatementBegin
CREATE FUNCTION dense.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('dense.vectors', OLD.name, NEW.name);
    END IF;
    DELETE FROM dense.vectors WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_2_dense AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION dense.follow_namespace();

-- +goose Down
DROP TRIGGER follow_2_dense ON memory.namespaces;
DROP FUNCTION dense.follow_namespace();
