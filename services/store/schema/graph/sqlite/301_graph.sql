-- +goose Up
-- See the PostgreSQL track for what the tables mean. There are no co-mentions: searches find them in memory. Mentions and edges keep their rowid: without statistics the planner
-- takes a namespace for ten rows, and would rather read all of it from a clustered primary key than seek by memory when
-- a forgotten memory's rows are to go.
CREATE TABLE graph_concepts (
    namespace TEXT    NOT NULL,
    id        INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    kind      TEXT    NOT NULL CHECK (kind IN ('title', 'tag', 'keyword', 'name')),
    mentions  INTEGER NOT NULL DEFAULT 0 CHECK (mentions >= 0),
    vector       BLOB,
    vector_model TEXT CHECK ((vector IS NULL) = (vector_model IS NULL)),
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
    origin     TEXT    NOT NULL DEFAULT 'text' CHECK (origin IN ('text', 'import', 'model')),
    single     INTEGER NOT NULL DEFAULT 0 CHECK (single IN (0, 1)),
    stated_to  INTEGER,
    vector       BLOB,
    vector_model TEXT CHECK ((vector IS NULL) = (vector_model IS NULL)),
    PRIMARY KEY (namespace, source_id, target_id, relation, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT;
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
    version   INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX graph_link_ends_by_key ON graph_link_ends (namespace, key, memory_id);

-- +goose StatementBegin
CREATE TRIGGER graph_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_memory_links WHERE namespace = OLD.namespace AND source_id = OLD.id;
    DELETE FROM graph_link_ends WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- See the PostgreSQL track.
CREATE TABLE graph_versions (
    namespace TEXT    NOT NULL PRIMARY KEY,
    epoch     INTEGER NOT NULL DEFAULT (random()),
    version   INTEGER NOT NULL,
    removed   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX graph_link_ends_by_version ON graph_link_ends (namespace, version);

-- +goose StatementBegin
CREATE TRIGGER graph_memory_removed AFTER DELETE ON graph_link_ends
BEGIN
    UPDATE graph_versions SET version = version + 1, removed = version + 1 WHERE namespace = OLD.namespace;
END;
-- +goose StatementEnd

-- See the memory track. Mentions stay as many as they are when their concepts come along.
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

-- See the PostgreSQL track.
CREATE TABLE graph_extractions (
    namespace    TEXT    NOT NULL,
    memory_id    BLOB    NOT NULL,
    sensitive    INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    digest       INTEGER NOT NULL,
    model        TEXT    NOT NULL,
    facts        INTEGER NOT NULL CHECK (facts >= 0),
    tokens       INTEGER NOT NULL CHECK (tokens >= 0),
    extracted_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER graph_extraction_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_extractions WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_extraction_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE graph_extractions SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_extraction_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM graph_extractions WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
