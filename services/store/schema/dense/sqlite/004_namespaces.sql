-- +goose Up
-- See the memory track. Vectors get new ids, because a process may have read those of an earlier namespace of the new
-- name up to a higher one.
-- +goose StatementBegin
CREATE TRIGGER dense_follow AFTER UPDATE OF name ON namespaces
BEGIN
    INSERT INTO dense_vectors (namespace, memory_id, model_id, sensitive, revision, embedding)
    SELECT NEW.name, memory_id, model_id, sensitive, revision, embedding FROM dense_vectors WHERE namespace = OLD.name ORDER BY id;
    DELETE FROM dense_vectors WHERE namespace = OLD.name;
    DELETE FROM dense_state WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER dense_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM dense_vectors WHERE namespace = OLD.name;
    DELETE FROM dense_state WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER dense_go;
DROP TRIGGER dense_follow;
