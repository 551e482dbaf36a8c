-- +goose Up
-- See the PostgreSQL track for what these are.
ALTER TABLE dense_models ADD COLUMN local INTEGER NOT NULL DEFAULT 0 CHECK (local IN (0, 1));
UPDATE dense_models SET local = 1 WHERE provider = 'builtin';
CREATE UNIQUE INDEX model_identity ON dense_models (provider, name, dimensions, document_prefix, query_prefix);
CREATE UNIQUE INDEX local_models ON dense_models (id, local);
CREATE UNIQUE INDEX one_building_model ON dense_models (status) WHERE status = 'building';

CREATE TABLE dense_model_rows (
    model_id  INTEGER NOT NULL,
    sensitive INTEGER NOT NULL CHECK (sensitive IN (0, 1)),
    local     INTEGER NOT NULL,
    PRIMARY KEY (model_id, sensitive),
    FOREIGN KEY (model_id, local) REFERENCES dense_models (id, local) ON UPDATE CASCADE ON DELETE CASCADE,
    CONSTRAINT sensitive_stays_local CHECK (local OR NOT sensitive)
) STRICT, WITHOUT ROWID;
INSERT INTO dense_model_rows (model_id, sensitive, local) SELECT id, 0, local FROM dense_models;

-- +goose StatementBegin
CREATE TRIGGER allow_plain_rows AFTER INSERT ON dense_models
BEGIN
    INSERT INTO dense_model_rows (model_id, sensitive, local) VALUES (NEW.id, 0, NEW.local);
END;
-- +goose StatementEnd

-- A constraint cannot be replaced in place. The triggers that count vectors come after the copying: nothing is counted
-- twice. Ids stay, and none is given out again.
DROP TRIGGER purge_vectors;
DROP TRIGGER dense_inserted;
DROP TRIGGER dense_deleted;
DROP TRIGGER dense_updated;
DROP INDEX dense_vectors_by_model;
ALTER TABLE dense_vectors RENAME TO old_dense_vectors;
CREATE TABLE dense_vectors (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT    NOT NULL,
    memory_id BLOB    NOT NULL,
    model_id  INTEGER NOT NULL,
    sensitive INTEGER NOT NULL DEFAULT 0,
    revision  INTEGER NOT NULL, -- of the memory when it was embedded
    embedding BLOB    NOT NULL,
    -- In this order it also serves the foreign key's cascade and the purge.
    UNIQUE (namespace, memory_id, model_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (model_id, sensitive) REFERENCES dense_model_rows (model_id, sensitive)
) STRICT;
INSERT INTO dense_vectors (id, namespace, memory_id, model_id, sensitive, revision, embedding)
SELECT id, namespace, memory_id, model_id, sensitive, revision, embedding FROM old_dense_vectors;
DELETE FROM sqlite_sequence WHERE name = 'dense_vectors';
INSERT INTO sqlite_sequence (name, seq) SELECT 'dense_vectors', seq FROM sqlite_sequence WHERE name = 'old_dense_vectors';
DROP TABLE old_dense_vectors;
CREATE INDEX dense_vectors_by_model ON dense_vectors (namespace, model_id);
CREATE INDEX sensitive_vectors ON dense_vectors (model_id) WHERE sensitive;
-- +goose StatementBegin
CREATE TRIGGER dense_inserted AFTER INSERT ON dense_vectors
BEGIN
    INSERT INTO dense_state (namespace, model_id, last_id, vectors, deleted) VALUES (NEW.namespace, NEW.model_id, NEW.id, 1, 0)
    ON CONFLICT (namespace, model_id) DO UPDATE SET last_id = max(last_id, excluded.last_id), vectors = vectors + 1;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER dense_deleted AFTER DELETE ON dense_vectors
BEGIN
    UPDATE dense_state SET vectors = vectors - 1, deleted = deleted + 1 WHERE namespace = OLD.namespace AND model_id = OLD.model_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER dense_updated BEFORE UPDATE ON dense_vectors
BEGIN
    SELECT RAISE(ABORT, 'a vector is deleted and inserted anew, not updated');
END;
-- +goose StatementEnd
-- A vector says whether its memory is sensitive, so it goes when that changes, whichever way.
-- +goose StatementBegin
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive <> OLD.sensitive
BEGIN
    DELETE FROM dense_vectors WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER purge_vectors;
DELETE FROM dense_vectors WHERE sensitive;
DROP TRIGGER dense_inserted;
DROP TRIGGER dense_deleted;
DROP TRIGGER dense_updated;
DROP INDEX dense_vectors_by_model;
DROP INDEX sensitive_vectors;
ALTER TABLE dense_vectors RENAME TO new_dense_vectors;
CREATE TABLE dense_vectors (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT    NOT NULL,
    memory_id BLOB    NOT NULL,
    model_id  INTEGER NOT NULL REFERENCES dense_models (id),
    sensitive INTEGER NOT NULL DEFAULT 0 CHECK (sensitive = 0),
    revision  INTEGER NOT NULL,
    embedding BLOB    NOT NULL,
    UNIQUE (namespace, memory_id, model_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memories (namespace, id, sensitive) ON DELETE CASCADE
) STRICT;
INSERT INTO dense_vectors (id, namespace, memory_id, model_id, sensitive, revision, embedding)
SELECT id, namespace, memory_id, model_id, sensitive, revision, embedding FROM new_dense_vectors;
DELETE FROM sqlite_sequence WHERE name = 'dense_vectors';
INSERT INTO sqlite_sequence (name, seq) SELECT 'dense_vectors', seq FROM sqlite_sequence WHERE name = 'new_dense_vectors';
DROP TABLE new_dense_vectors;
CREATE INDEX dense_vectors_by_model ON dense_vectors (namespace, model_id);
-- +goose StatementBegin
CREATE TRIGGER dense_inserted AFTER INSERT ON dense_vectors
BEGIN
    INSERT INTO dense_state (namespace, model_id, last_id, vectors, deleted) VALUES (NEW.namespace, NEW.model_id, NEW.id, 1, 0)
    ON CONFLICT (namespace, model_id) DO UPDATE SET last_id = max(last_id, excluded.last_id), vectors = vectors + 1;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER dense_deleted AFTER DELETE ON dense_vectors
BEGIN
    UPDATE dense_state SET vectors = vectors - 1, deleted = deleted + 1 WHERE namespace = OLD.namespace AND model_id = OLD.model_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER dense_updated BEFORE UPDATE ON dense_vectors
BEGIN
    SELECT RAISE(ABORT, 'a vector is deleted and inserted anew, not updated');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memories WHEN NEW.sensitive AND NOT OLD.sensitive
BEGIN
    DELETE FROM dense_vectors WHERE namespace = OLD.namespace AND memory_id = OLD.id;
END;
-- +goose StatementEnd
DROP TRIGGER allow_plain_rows;
DROP TABLE dense_model_rows;
DROP INDEX one_building_model;
DROP INDEX local_models;
DROP INDEX model_identity;
ALTER TABLE dense_models DROP COLUMN local;
