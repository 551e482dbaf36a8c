-- +goose Up
-- See the memory track: the documents follow their namespace.
-- +goose StatementBegin
CREATE FUNCTION lexical.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('lexical.documents', OLD.name, NEW.name);
    END IF;
    DELETE FROM lexical.documents WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_2_lexical AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION lexical.follow_namespace();

-- +goose Down
DROP TRIGGER follow_2_lexical ON memory.namespaces;
DROP FUNCTION lexical.follow_namespace();
