-- +goose Up
-- A model is told from others by its prefixes too. local says that who embeds with it sends texts to nobody outside its
-- host. The old constraint goes in a later step: binaries from before this one name it.
ALTER TABLE dense.models
    ADD COLUMN local boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT model_identity UNIQUE (provider, name, dimensions, document_prefix, query_prefix),
    ADD UNIQUE (id, local);
UPDATE dense.models SET local = true WHERE provider = 'builtin';
CREATE UNIQUE INDEX one_building_model ON dense.models (status) WHERE status = 'building';

-- Which vectors a model may have: every model those of memories that are not sensitive, and a local one those of
-- sensitive memories too, where an operator has allowed it.
CREATE TABLE dense.model_rows (
    model_id  integer NOT NULL,
    sensitive boolean NOT NULL,
    local     boolean NOT NULL,
    PRIMARY KEY (model_id, sensitive),
    FOREIGN KEY (model_id, local) REFERENCES dense.models (id, local) ON UPDATE CASCADE ON DELETE CASCADE,
    CONSTRAINT sensitive_stays_local CHECK (local OR NOT sensitive)
);
INSERT INTO dense.model_rows (model_id, sensitive, local) SELECT id, false, local FROM dense.models;

-- Runs as its owner: who registers a model need not be allowed to decide what it may have.
-- +goose StatementBegin
CREATE FUNCTION dense.allow_plain_rows() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO dense.model_rows (model_id, sensitive, local) VALUES (NEW.id, false, NEW.local);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER allow_plain_rows AFTER INSERT ON dense.models FOR EACH ROW EXECUTE FUNCTION dense.allow_plain_rows();

ALTER TABLE dense.vectors
    DROP CONSTRAINT vectors_sensitive_check,
    DROP CONSTRAINT vectors_model_id_fkey,
    ADD FOREIGN KEY (model_id, sensitive) REFERENCES dense.model_rows (model_id, sensitive);
CREATE INDEX sensitive_vectors ON dense.vectors (model_id) WHERE sensitive;

-- A vector says whether its memory is sensitive, so it goes when that changes, whichever way.
DROP TRIGGER purge_vectors ON memory.memories;
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive <> OLD.sensitive) EXECUTE FUNCTION dense.purge();

-- +goose Down
DROP TRIGGER purge_vectors ON memory.memories;
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION dense.purge();
DELETE FROM dense.vectors WHERE sensitive;
DROP INDEX dense.sensitive_vectors;
ALTER TABLE dense.vectors
    DROP CONSTRAINT vectors_model_id_sensitive_fkey,
    ADD CONSTRAINT vectors_sensitive_check CHECK (NOT sensitive),
    ADD CONSTRAINT vectors_model_id_fkey FOREIGN KEY (model_id) REFERENCES dense.models (id);
DROP TRIGGER allow_plain_rows ON dense.models;
DROP FUNCTION dense.allow_plain_rows;
DROP TABLE dense.model_rows;
DROP INDEX dense.one_building_model;
ALTER TABLE dense.models DROP COLUMN local, DROP CONSTRAINT model_identity;
