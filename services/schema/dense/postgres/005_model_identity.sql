-- +goose Up
-- Two models may differ in nothing but their prefixes. Binaries since 002 do not name this constraint any more.
ALTER TABLE dense.models DROP CONSTRAINT models_provider_name_dimensions_key;

-- +goose Down
ALTER TABLE dense.models ADD UNIQUE (provider, name, dimensions);
