-- +goose Up
-- See the PostgreSQL track.
ALTER TABLE graph_concept_edges ADD COLUMN origin TEXT NOT NULL DEFAULT 'text' CHECK (origin IN ('text', 'import', 'model'));
ALTER TABLE graph_concept_edges ADD COLUMN single INTEGER NOT NULL DEFAULT 0 CHECK (single IN (0, 1));
ALTER TABLE graph_concept_edges ADD COLUMN stated_to INTEGER;

DROP INDEX graph_concept_edges_by_source;
DROP INDEX graph_concept_edges_by_target;
CREATE INDEX graph_concept_edges_by_source ON graph_concept_edges (namespace, source_id, target_id, weight, valid_to);
CREATE INDEX graph_concept_edges_by_target ON graph_concept_edges (namespace, target_id, source_id, weight, valid_to);

CREATE TABLE graph_versions (
    namespace TEXT    NOT NULL PRIMARY KEY,
    epoch     INTEGER NOT NULL DEFAULT (random()),
    version   INTEGER NOT NULL,
    removed   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE graph_link_ends ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
CREATE INDEX graph_link_ends_by_version ON graph_link_ends (namespace, version);

INSERT INTO graph_versions (namespace, version, removed) SELECT DISTINCT namespace, 1, 0 FROM graph_link_ends;

-- +goose StatementBegin
CREATE TRIGGER graph_memory_removed AFTER DELETE ON graph_link_ends
BEGIN
    UPDATE graph_versions SET version = version + 1, removed = version + 1 WHERE namespace = OLD.namespace;
END;
-- +goose StatementEnd

DROP TRIGGER graph_follow;
-- +goose StatementBegin
CREATE TRIGGER graph_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE graph_concepts SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_memory_concepts SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_concept_edges SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_memory_links SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_link_ends SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_versions SET namespace = NEW.name, epoch = random() WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
DROP TRIGGER graph_go;
-- +goose StatementBegin
CREATE TRIGGER graph_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM graph_memory_links WHERE namespace = OLD.name;
    DELETE FROM graph_link_ends WHERE namespace = OLD.name;
    DELETE FROM graph_concept_edges WHERE namespace = OLD.name;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.name;
    DELETE FROM graph_versions WHERE namespace = OLD.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER graph_go;
-- +goose StatementBegin
CREATE TRIGGER graph_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM graph_memory_links WHERE namespace = OLD.name;
    DELETE FROM graph_link_ends WHERE namespace = OLD.name;
    DELETE FROM graph_concept_edges WHERE namespace = OLD.name;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
DROP TRIGGER graph_follow;
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
DROP TRIGGER graph_memory_removed;
DROP INDEX graph_link_ends_by_version;
ALTER TABLE graph_link_ends DROP COLUMN version;
DROP TABLE graph_versions;
DELETE FROM graph_concept_edges WHERE origin <> 'text' OR relation <> 'co-mention';
DROP INDEX graph_concept_edges_by_source;
DROP INDEX graph_concept_edges_by_target;
ALTER TABLE graph_concept_edges DROP COLUMN stated_to;
ALTER TABLE graph_concept_edges DROP COLUMN single;
ALTER TABLE graph_concept_edges DROP COLUMN origin;
CREATE INDEX graph_concept_edges_by_source ON graph_concept_edges (namespace, source_id, target_id, weight) WHERE valid_to IS NULL;
CREATE INDEX graph_concept_edges_by_target ON graph_concept_edges (namespace, target_id, source_id, weight) WHERE valid_to IS NULL;
