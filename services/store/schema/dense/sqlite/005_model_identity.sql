-- +goose Up
-- Two models may differ in nothing but their prefixes. Binaries since 002 do not name this constraint any more, which
-- cannot be dropped in place: the rows come back under their ids before the foreign keys to them are checked. An id is
-- never given twice, so that a process whose model has been removed does not take another for it.
PRAGMA defer_foreign_keys = 1;
CREATE TEMP TABLE kept_models AS SELECT * FROM dense_models;
CREATE TEMP TABLE kept_model_rows AS SELECT * FROM dense_model_rows;
DROP TABLE dense_models;
CREATE TABLE dense_models (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    provider        TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    dimensions      INTEGER NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
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
INSERT INTO dense_models (id, provider, name, dimensions, document_prefix, query_prefix, status, created_at, local)
SELECT id, provider, name, dimensions, document_prefix, query_prefix, status, created_at, local FROM kept_models;
INSERT INTO dense_model_rows (model_id, sensitive, local)
SELECT model_id, sensitive, local FROM kept_model_rows WHERE true ON CONFLICT DO NOTHING;
-- +goose StatementBegin
CREATE TRIGGER allow_plain_rows AFTER INSERT ON dense_models
BEGIN
    INSERT INTO dense_model_rows (model_id, sensitive, local) VALUES (NEW.id, 0, NEW.local);
END;
-- +goose StatementEnd
DROP TABLE kept_models;
DROP TABLE kept_model_rows;

-- +goose Down
CREATE UNIQUE INDEX old_model_identity ON dense_models (provider, name, dimensions);
