-- +goose Up
-- See the PostgreSQL track for what these are.
CREATE TABLE graph_memory_links (
    namespace  TEXT    NOT NULL,
    source_id  BLOB    NOT NULL,
    target_key INTEGER NOT NULL,
    relation   TEXT    NOT NULL,
    sensitive  INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    PRIMARY KEY (namespace, source_id, target_key, relation),
    FOREIGN KEY (namespace, source_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX graph_memory_links_by_target ON graph_memory_links (namespace, target_key, source_id);

CREATE TABLE graph_link_ends (
    namespace TEXT    NOT NULL,
    memory_id BLOB    NOT NULL,
    key       INTEGER NOT NULL,
    sensitive INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX graph_link_ends_by_key ON graph_link_ends (namespace, key, memory_id);

DROP TRIGGER graph_purge;
-- +goose StatementBegin
CREATE TRIGGER graph_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_memory_links WHERE namespace = OLD.namespace AND source_id = OLD.id;
    DELETE FROM graph_link_ends WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

INSERT INTO index_queue (namespace, memory_id, index_name, sensitive, revision, enqueued_at, not_before, sequence, since)
SELECT namespace, id, 'graph', 0, revision, CAST(unixepoch('subsec') * 1000000 AS INTEGER), 0, sequence, sequence
FROM memories WHERE NOT sensitive
ON CONFLICT DO NOTHING;

-- +goose Down
DROP TRIGGER graph_purge;
-- +goose StatementBegin
CREATE TRIGGER graph_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd
DROP TABLE graph_memory_links;
DROP TABLE graph_link_ends;
