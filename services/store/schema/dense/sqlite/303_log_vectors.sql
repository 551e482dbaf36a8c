-- +goose Up
-- A namespace that is being deleted or renamed is no longer there by its old name, and the log has nothing of it.
DROP TRIGGER log_vector_inserted;
DROP TRIGGER log_vector_updated;
DROP TRIGGER log_vector_deleted;
-- +goose StatementBegin
CREATE TRIGGER log_vector_inserted AFTER INSERT ON dense_vectors
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.memory_id, 'd' FROM namespaces WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_vector_updated AFTER UPDATE ON dense_vectors
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.memory_id, 'd' FROM namespaces WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_vector_deleted AFTER DELETE ON dense_vectors
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, OLD.memory_id, 'd' FROM namespaces WHERE name = OLD.namespace;
END;
-- +goose StatementEnd
DELETE FROM log WHERE namespace NOT IN (SELECT name FROM namespaces);
