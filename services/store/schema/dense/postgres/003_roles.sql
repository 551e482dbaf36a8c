-- +goose Up
-- The service registers models but owns no table, and only an owner may create an index.
-- +goose StatementBegin
CREATE FUNCTION dense.create_index(model integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    length    integer      := (SELECT dimensions FROM dense.models WHERE id = model);
    extension regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'vector');
BEGIN
    IF length IS NULL THEN
        RAISE EXCEPTION 'there is no model %', model;
    END IF;
    EXECUTE format('CREATE INDEX IF NOT EXISTS vectors_hnsw_%1$s ON dense.vectors USING hnsw ((embedding::%2$s.halfvec(%3$s)) %2$s.halfvec_cosine_ops)
        WITH (m = 16, ef_construction = 64) WHERE model_id = %1$s', model, extension, length);
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION dense.create_index FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dense.create_index TO triskele_dense;

SELECT memory.isolate('dense');

GRANT SELECT ON schema_version_dense TO triskele_dense;
GRANT USAGE ON SCHEMA dense TO triskele_dense;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dense TO triskele_dense;
