-- +goose Up
-- The models whose vectors are kept. Recall reads those of the active one only. An id is never given twice, so that a process
-- whose model has been removed does not take another for it.
CREATE TABLE dense_models (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    provider        TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    dimensions      INTEGER NOT NULL CHECK (dimensions BETWEEN 1 AND 4000), -- as on PostgreSQL
    document_prefix TEXT    NOT NULL DEFAULT '',
    query_prefix    TEXT    NOT NULL DEFAULT '',
    status          TEXT    NOT NULL CHECK (status IN ('building', 'active', 'retired')),
    created_at      INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    local           INTEGER NOT NULL DEFAULT 0 CHECK (local IN (0, 1))
) STRICT;
CREATE UNIQUE INDEX model_identity ON dense_models (provider, name, dimensions, document_prefix, query_prefix);
CREATE UNIQUE INDEX local_models ON dense_models (id, local);
CREATE UNIQUE INDEX one_active_model ON dense_models (status) WHERE status = 'active';
CREATE UNIQUE INDEX one_building_model ON dense_models (status) WHERE status = 'building';

-- See the PostgreSQL track for what these are.
CREATE TABLE dense_model_rows (
    model_id  INTEGER NOT NULL,
    sensitive INTEGER NOT NULL CHECK (sensitive IN (0, 1)),
    local     INTEGER NOT NULL,
    PRIMARY KEY (model_id, sensitive),
    FOREIGN KEY (model_id, local) REFERENCES dense_models (id, local) ON UPDATE CASCADE ON DELETE CASCADE,
    CONSTRAINT sensitive_stays_local CHECK (local OR NOT sensitive)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER allow_plain_rows AFTER INSERT ON dense_models
BEGIN
    INSERT INTO dense_model_rows (model_id, sensitive, local) VALUES (NEW.id, 0, NEW.local);
END;
-- +goose StatementEnd

-- One vector per memory and model, none of length 0: IEEE half-precision numbers, little endian.
CREATE TABLE dense_vectors (
    namespace TEXT    NOT NULL,
    memory_id BLOB    NOT NULL,
    model_id  INTEGER NOT NULL,
    sensitive INTEGER NOT NULL DEFAULT 0,
    revision  INTEGER NOT NULL, -- of the memory when it was embedded
    embedding BLOB    NOT NULL,
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, model_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (model_id, sensitive) REFERENCES dense_model_rows (model_id, sensitive)
) STRICT;
CREATE INDEX sensitive_vectors ON dense_vectors (model_id) WHERE sensitive;

-- Searches follow the log, see the memory track.
-- +goose StatementBegin
CREATE TRIGGER log_vector_inserted AFTER INSERT ON dense_vectors
BEGIN
    INSERT INTO log (namespace, memory_id, part) VALUES (NEW.namespace, NEW.memory_id, 'd');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_vector_updated AFTER UPDATE ON dense_vectors
BEGIN
    INSERT INTO log (namespace, memory_id, part) VALUES (NEW.namespace, NEW.memory_id, 'd');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_vector_deleted AFTER DELETE ON dense_vectors
BEGIN
    INSERT INTO log (namespace, memory_id, part) VALUES (OLD.namespace, OLD.memory_id, 'd');
END;
-- +goose StatementEnd

-- A vector says whether its memory is sensitive, so it goes when that changes, whichever way.
-- +goose StatementBegin
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive <> OLD.sensitive
BEGIN
    DELETE FROM dense_vectors WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- See the memory track.
-- +goose StatementBegin
CREATE TRIGGER dense_follow AFTER UPDATE OF name ON namespaces
BEGIN
    UPDATE dense_vectors SET namespace = NEW.name WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER dense_go AFTER DELETE ON namespaces
BEGIN
    DELETE FROM dense_vectors WHERE namespace = OLD.name;
END;
-- +goose StatementEnd
