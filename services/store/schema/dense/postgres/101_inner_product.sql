-- +goose Up
-- Vectors have length 1, so the inner product orders them as the cosine does, and it may leave out components that queries
-- have no part in: among neighbours that are alike in those, a search loses its way. queried is how many of the first
-- components a query has; 0 means all.
-- +goose StatementBegin
CREATE FUNCTION dense.create_index(model integer, queried integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    length     integer      := (SELECT dimensions FROM dense.models WHERE id = model);
    extension  regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'vector');
    expression text;
BEGIN
    IF length IS NULL OR queried NOT BETWEEN 0 AND length THEN
        RAISE EXCEPTION 'there is no model % with % dimensions', model, queried;
    END IF;
    expression := format('embedding::%1$s.halfvec(%2$s)', extension, length);
    IF queried > 0 THEN
        expression := format('%1$s.subvector(%2$s, 1, %3$s)::%1$s.halfvec(%3$s)', extension, expression, queried);
    END IF;
    EXECUTE format('CREATE INDEX IF NOT EXISTS vectors_near_%1$s ON dense.vectors USING hnsw ((%2$s) %3$s.halfvec_ip_ops)
        WITH (m = 24, ef_construction = 128) WHERE model_id = %1$s', model, expression, extension);
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION dense.create_index(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dense.create_index(integer, integer) TO triskele_dense;

-- Programs of the release before search through the indexes that there are; those go in a later step.
SET LOCAL maintenance_work_mem = '1GB';
SELECT dense.create_index(id, CASE WHEN provider = 'builtin' AND name = 'static-en-v1' THEN dimensions - 1 ELSE 0 END) FROM dense.models;

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT to_regclass(format('dense.vectors_near_%s', id)) AS index FROM dense.models LOOP
        IF made.index IS NOT NULL THEN
            EXECUTE format('DROP INDEX %s', made.index);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION dense.create_index(integer, integer);
