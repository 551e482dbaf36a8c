-- +goose Up
CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
-- +goose StatementBegin
DO $$
DECLARE
    found text := (SELECT extversion FROM pg_extension WHERE extname = 'vector');
BEGIN
    IF string_to_array(found, '.')::integer[] < '{0,8}' THEN
        RAISE EXCEPTION 'pgvector % is too old: searching under filters needs 0.8 or newer', found
            USING HINT = 'Install a newer pgvector, then run ALTER EXTENSION vector UPDATE.';
    END IF;
END $$;
-- +goose StatementEnd

CREATE SCHEMA dense;

-- The models whose vectors are kept. Recall reads those of the active one only.
CREATE TABLE dense.models (
    id              integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider        text        NOT NULL,
    name            text        NOT NULL,
    dimensions      integer     NOT NULL CHECK (dimensions BETWEEN 1 AND 4000), -- as many as an HNSW index of halfvec takes
    document_prefix text        NOT NULL DEFAULT '',
    query_prefix    text        NOT NULL DEFAULT '',
    status          text        NOT NULL CHECK (status IN ('building', 'active', 'retired')),
    created_at      timestamptz NOT NULL DEFAULT now(),
    local           boolean     NOT NULL DEFAULT false, -- who embeds with it sends texts to nobody outside its host
    indexed         boolean     NOT NULL DEFAULT false, -- a namespace was too large for memory: an HNSW index is wanted
    CONSTRAINT model_identity UNIQUE (provider, name, dimensions, document_prefix, query_prefix),
    UNIQUE (id, local)
);
CREATE UNIQUE INDEX one_active_model ON dense.models (status) WHERE status = 'active';
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

-- Runs as its owner: who registers a model need not be allowed to decide what it may have.
-- +goose StatementBegin
CREATE FUNCTION dense.allow_plain_rows() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO dense.model_rows (model_id, sensitive, local) VALUES (NEW.id, false, NEW.local);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER allow_plain_rows AFTER INSERT ON dense.models FOR EACH ROW EXECUTE FUNCTION dense.allow_plain_rows();

-- One vector per memory and model, none of length 0. Searches read it into memory. A partial HNSW index is built for a model
-- once a namespace is too large for that.
CREATE TABLE dense.vectors (
    namespace text    NOT NULL,
    memory_id uuid    NOT NULL,
    model_id  integer NOT NULL,
    sensitive boolean NOT NULL DEFAULT false,
    revision  bigint  NOT NULL, -- of the memory when it was embedded
    embedding halfvec NOT NULL,
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, model_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (model_id, sensitive) REFERENCES dense.model_rows (model_id, sensitive)
) PARTITION BY HASH (namespace);

CREATE TABLE dense.vectors_0 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE dense.vectors_1 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE dense.vectors_2 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE dense.vectors_3 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE dense.vectors_4 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE dense.vectors_5 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE dense.vectors_6 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE dense.vectors_7 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 7);
CREATE INDEX sensitive_vectors ON dense.vectors (model_id) WHERE sensitive;

-- Runs as its owner: whoever turns a memory sensitive need not be allowed to write here.
-- +goose StatementBegin
CREATE FUNCTION dense.purge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM dense.vectors WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- A vector says whether its memory is sensitive, so it goes when that changes, whichever way.
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive <> OLD.sensitive) EXECUTE FUNCTION dense.purge();

-- Searches follow the log, see the memory track.
CREATE TRIGGER log_inserted AFTER INSERT ON dense.vectors REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.log_derived('d');
CREATE TRIGGER log_updated AFTER UPDATE ON dense.vectors REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.log_derived('d');
CREATE TRIGGER log_deleted AFTER DELETE ON dense.vectors REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.log_derived('d');

SELECT memory.isolate('dense');

GRANT SELECT ON schema_version_dense TO triskele_dense;
GRANT USAGE ON SCHEMA dense TO triskele_dense;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dense TO triskele_dense;

-- See the memory track: the vectors follow their namespace.
-- +goose StatementBegin
CREATE FUNCTION dense.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('dense.vectors', OLD.name, NEW.name);
    END IF;
    DELETE FROM dense.vectors WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_2_dense AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION dense.follow_namespace();

-- Only the owner permits vectors of sensitive memories, not the service that would write them.
REVOKE INSERT, UPDATE, DELETE ON dense.model_rows FROM triskele_dense;
