-- +goose Up
-- A namespace is renamed by changing its row and forgotten by deleting it; triggers of each track bring the track's rows
-- along, in any order: foreign keys are checked at the end of the statement.
-- +goose StatementBegin
CREATE TRIGGER memories_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE memories SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE index_queue SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER memories_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM index_queue WHERE namespace = OLD.name;
    DELETE FROM memories WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER memories_go;
DROP TRIGGER memories_follow;
