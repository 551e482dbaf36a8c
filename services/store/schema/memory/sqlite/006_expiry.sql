-- +goose Up
CREATE INDEX memories_by_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL;

-- +goose Down
DROP INDEX memories_by_expiry;
