-- +goose Up
-- See the memory track. Mentions stay as many as they are when their concepts come along.
-- +goose StatementBegin
CREATE TRIGGER graph_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE graph_concepts SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_memory_concepts SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_concept_edges SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_memory_links SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_link_ends SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM graph_memory_links WHERE namespace = OLD.name;
    DELETE FROM graph_link_ends WHERE namespace = OLD.name;
    DELETE FROM graph_concept_edges WHERE namespace = OLD.name;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER graph_go;
DROP TRIGGER graph_follow;
