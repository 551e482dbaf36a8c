-- +goose Up
-- See the memory track. The full-text index knows a namespace by its number, which stays.
-- +goose StatementBegin
CREATE TRIGGER lexical_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE lexical_namespaces SET name = NEW.name WHERE name = OLD.name;
    UPDATE lexical_documents SET namespace = NEW.name WHERE namespace = OLD.name;
    DELETE FROM lexical_settings WHERE namespace = NEW.name; -- may be there before the namespace
    UPDATE lexical_settings SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM lexical_documents WHERE namespace = OLD.name;
    DELETE FROM lexical_namespaces WHERE name = OLD.name;
    DELETE FROM lexical_settings WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER lexical_go;
DROP TRIGGER lexical_follow;
