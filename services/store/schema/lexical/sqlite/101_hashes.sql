-- +goose Up
-- Hashes of each memory's whole content and title, as on PostgreSQL. The program adds those that are missing when it opens
-- the file.
CREATE TABLE lexical_hashes (
    namespace TEXT NOT NULL,
    memory_id BLOB NOT NULL,
    content   INTEGER,
    title     INTEGER,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memories (namespace, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX lexical_hashes_content ON lexical_hashes (namespace, content, memory_id) WHERE content IS NOT NULL;
CREATE INDEX lexical_hashes_title ON lexical_hashes (namespace, title, memory_id) WHERE title IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER lexical_forget_hashes AFTER UPDATE OF content, title ON memories
WHEN OLD.content IS NOT NEW.content OR OLD.title IS NOT NEW.title
BEGIN
    DELETE FROM lexical_hashes WHERE namespace = NEW.namespace AND memory_id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_hashes_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE lexical_hashes SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lexical_hashes_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM lexical_hashes WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER lexical_hashes_go;
DROP TRIGGER lexical_hashes_follow;
DROP TRIGGER lexical_forget_hashes;
DROP TABLE lexical_hashes;
