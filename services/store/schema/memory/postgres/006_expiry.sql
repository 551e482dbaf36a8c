-- +goose Up
-- For the sweep, which looks for the memories of all namespaces that expired long ago.
CREATE INDEX memories_by_expiry ON memory.memories (expires_at) WHERE expires_at IS NOT NULL;

-- +goose Down
DROP INDEX memory.memories_by_expiry;
