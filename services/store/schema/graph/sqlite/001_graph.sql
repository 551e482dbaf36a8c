-- +goose Up
-- See the PostgreSQL track for what the tables mean. Mentions and edges keep their rowid: without statistics the planner
-- takes a namespace for ten rows, and would rather read all of it from a clustered primary key than seek by memory when
-- a forgotten memory's rows are to go.
CREATE TABLE graph_concepts (
    namespace TEXT    NOT NULL,
    id        INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    kind      TEXT    NOT NULL CHECK (kind IN ('title', 'tag', 'keyword', 'name')),
    mentions  INTEGER NOT NULL DEFAULT 0 CHECK (mentions >= 0),
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE graph_memory_concepts (
    namespace  TEXT    NOT NULL,
    concept_id INTEGER NOT NULL,
    memory_id  BLOB    NOT NULL,
    sensitive  INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    salience   REAL    NOT NULL CHECK (salience BETWEEN 0 AND 1),
    revision   INTEGER NOT NULL,
    PRIMARY KEY (namespace, concept_id, memory_id),
    FOREIGN KEY (namespace, concept_id) REFERENCES graph_concepts (namespace, id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT;
CREATE INDEX graph_memory_concepts_by_memory ON graph_memory_concepts (namespace, memory_id);

CREATE TABLE graph_concept_edges (
    namespace  TEXT    NOT NULL,
    source_id  INTEGER NOT NULL,
    target_id  INTEGER NOT NULL,
    relation   TEXT    NOT NULL,
    memory_id  BLOB    NOT NULL,
    sensitive  INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    weight     REAL    NOT NULL CHECK (weight > 0 AND weight <= 1),
    valid_from INTEGER NOT NULL,
    valid_to   INTEGER,
    PRIMARY KEY (namespace, source_id, target_id, relation, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT;
CREATE INDEX graph_concept_edges_by_source ON graph_concept_edges (namespace, source_id, target_id, weight) WHERE valid_to IS NULL;
CREATE INDEX graph_concept_edges_by_target ON graph_concept_edges (namespace, target_id, source_id, weight) WHERE valid_to IS NULL;
CREATE INDEX graph_concept_edges_by_memory ON graph_concept_edges (namespace, memory_id);

-- +goose StatementBegin
CREATE TRIGGER graph_mention_added AFTER INSERT ON graph_memory_concepts
BEGIN
    UPDATE graph_concepts SET mentions = mentions + 1 WHERE namespace = NEW.namespace AND id = NEW.concept_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_mention_removed AFTER DELETE ON graph_memory_concepts
BEGIN
    UPDATE graph_concepts SET mentions = mentions - 1 WHERE namespace = OLD.namespace AND id = OLD.concept_id;
    DELETE FROM graph_concepts WHERE namespace = OLD.namespace AND id = OLD.concept_id AND mentions = 0;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER graph_purge;
DROP TABLE graph_concept_edges;
DROP TABLE graph_memory_concepts;
DROP TABLE graph_concepts;
