-- +goose Up
-- Whoever stores many memories counts their mentions together: a concept's row is then written once, and not for each memory.
ALTER TABLE graph_memories ADD COLUMN counted INTEGER NOT NULL DEFAULT 0; -- 1 if the mentions were counted by who inserted the row

DROP TRIGGER graph_mentions_added;
-- +goose StatementBegin
CREATE TRIGGER graph_memory_added AFTER INSERT ON graph_memories
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.memory_id, 'g' FROM namespaces WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_mentions_added AFTER INSERT ON graph_memories WHEN NOT NEW.counted
BEGIN
    UPDATE graph_concepts SET mentions = mentions + 1
    WHERE namespace = NEW.namespace AND id IN (SELECT value ->> 0 FROM json_each(NEW.mentions));
END;
-- +goose StatementEnd
