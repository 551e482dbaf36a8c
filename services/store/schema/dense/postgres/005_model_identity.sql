-- +goose Up
-- Two models may differ in nothing but their prefixes. Binaries since 002 do not name this constraint any more.
ALTER TABLE dense.models DROP CONSTRAINT models_provider_name_dimensions_key;

-- Only the owner permits vectors of sensitive memories, not the service that would write them.
REVOKE INSERT, UPDATE, DELETE ON dense.model_rows FROM triskele_dense;

-- +goose Down
GRANT INSERT, UPDATE, DELETE ON dense.model_rows TO triskele_dense;
ALTER TABLE dense.models ADD UNIQUE (provider, name, dimensions);
