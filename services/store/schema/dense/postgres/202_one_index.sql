-- +goose Up
-- No program searches through the indexes over whole vectors any more.
-- +goose StatementBegin
DO $$
DECLARE
    old regclass;
BEGIN
    FOR old IN SELECT oid FROM pg_class WHERE relnamespace = 'dense'::regnamespace AND relkind = 'I' AND relname ~ '^vectors_hnsw_[0-9]+$' LOOP
        EXECUTE format('DROP INDEX %s', old);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- Programs of the release before do not name them either.
SELECT 1;
