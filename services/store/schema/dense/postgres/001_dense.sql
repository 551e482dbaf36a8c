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
    UNIQUE (provider, name, dimensions)
);
CREATE UNIQUE INDEX one_active_model ON dense.models (status) WHERE status = 'active';

-- One vector per memory and model, none of length 0. Each model gets a partial HNSW index when it is registered.
CREATE TABLE dense.vectors (
    namespace text    NOT NULL,
    memory_id uuid    NOT NULL,
    model_id  integer NOT NULL REFERENCES dense.models (id),
    sensitive boolean NOT NULL DEFAULT false CHECK (NOT sensitive),
    revision  bigint  NOT NULL, -- of the memory when it was embedded
    embedding halfvec NOT NULL,
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, model_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE dense.vectors_0 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE dense.vectors_1 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE dense.vectors_2 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE dense.vectors_3 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE dense.vectors_4 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE dense.vectors_5 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE dense.vectors_6 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE dense.vectors_7 PARTITION OF dense.vectors FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- Runs as its owner: whoever turns a memory sensitive need not be allowed to write here.
-- +goose StatementBegin
CREATE FUNCTION dense.purge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM dense.vectors WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER purge_vectors BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION dense.purge();

-- +goose Down
DROP SCHEMA dense CASCADE;
