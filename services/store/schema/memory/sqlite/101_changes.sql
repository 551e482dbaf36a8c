-- +goose Up
-- How often the memories of a namespace have changed; see the PostgreSQL track for what it is for.
ALTER TABLE namespaces ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
-- +goose StatementBegin
CREATE TRIGGER count_inserted AFTER INSERT ON memories
BEGIN
    UPDATE namespaces SET changes = changes + 1 WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER count_updated AFTER UPDATE ON memories
BEGIN
    UPDATE namespaces SET changes = changes + 1 WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER count_deleted AFTER DELETE ON memories
BEGIN
    UPDATE namespaces SET changes = changes + 1 WHERE name = OLD.namespace;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER count_deleted;
DROP TRIGGER count_updated;
DROP TRIGGER count_inserted;
ALTER TABLE namespaces DROP COLUMN changes;
