-- +goose Up
-- See the PostgreSQL track for what the columns mean. All searches are in memory, so a memory's mentions and links are one row.
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

-- mentions are pairs of a concept and its salience in hundredths, links objects of a target's key (to) and a relation (as).
-- Whatever changes a memory in the graph writes its row, whose triggers log the change.
CREATE TABLE graph_memories (
    namespace TEXT    NOT NULL,
    memory_id BLOB    NOT NULL,
    sensitive INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    mentions  TEXT    NOT NULL DEFAULT '[]',
    links     TEXT    NOT NULL DEFAULT '[]',
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE graph_facts (
    namespace  TEXT    NOT NULL,
    memory_id  BLOB    NOT NULL,
    source_id  INTEGER NOT NULL,
    target_id  INTEGER NOT NULL,
    relation   TEXT    NOT NULL,
    sensitive  INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    origin     TEXT    NOT NULL DEFAULT 'text' CHECK (origin IN ('text', 'import', 'model')),
    single     INTEGER NOT NULL DEFAULT 0 CHECK (single IN (0, 1)),
    valid_from INTEGER NOT NULL,
    valid_to   INTEGER,
    vector       BLOB,
    vector_model TEXT CHECK ((vector IS NULL) = (vector_model IS NULL)),
    PRIMARY KEY (namespace, memory_id, source_id, target_id, relation),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- A concept goes with its last mention.
-- +goose StatementBegin
CREATE TRIGGER graph_mentions_added AFTER INSERT ON graph_memories
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.memory_id, 'g' FROM namespaces WHERE name = NEW.namespace;
    UPDATE graph_concepts SET mentions = mentions + 1
    WHERE namespace = NEW.namespace AND id IN (SELECT value ->> 0 FROM json_each(NEW.mentions));
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_memory_changed AFTER UPDATE ON graph_memories
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, NEW.memory_id, 'g' FROM namespaces WHERE name = NEW.namespace;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_mentions_changed AFTER UPDATE OF mentions ON graph_memories WHEN NEW.mentions <> OLD.mentions
BEGIN
    UPDATE graph_concepts SET mentions = mentions + 1
    WHERE namespace = NEW.namespace AND id IN (SELECT value ->> 0 FROM json_each(NEW.mentions));
    UPDATE graph_concepts SET mentions = mentions - 1
    WHERE namespace = OLD.namespace AND id IN (SELECT value ->> 0 FROM json_each(OLD.mentions));
    DELETE FROM graph_concepts
    WHERE namespace = OLD.namespace AND id IN (SELECT value ->> 0 FROM json_each(OLD.mentions)) AND mentions = 0;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_mentions_removed AFTER DELETE ON graph_memories
BEGIN
    INSERT INTO log (namespace, memory_id, part) SELECT name, OLD.memory_id, 'g' FROM namespaces WHERE name = OLD.namespace;
    UPDATE graph_concepts SET mentions = mentions - 1
    WHERE namespace = OLD.namespace AND id IN (SELECT value ->> 0 FROM json_each(OLD.mentions));
    DELETE FROM graph_concepts
    WHERE namespace = OLD.namespace AND id IN (SELECT value ->> 0 FROM json_each(OLD.mentions)) AND mentions = 0;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER graph_purge BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM graph_facts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph_memories WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- See the memory track. Mentions stay as many as they are when their concepts come along.
-- +goose StatementBegin
CREATE TRIGGER graph_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE graph_concepts SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_memories SET namespace = NEW.name WHERE namespace = OLD.name;
    UPDATE graph_facts SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER graph_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM graph_facts WHERE namespace = OLD.name;
    DELETE FROM graph_memories WHERE namespace = OLD.name;
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
