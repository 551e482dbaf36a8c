-- +goose Up
-- See the PostgreSQL track for what these are.
ALTER TABLE memories ADD COLUMN thread TEXT NOT NULL DEFAULT '';
ALTER TABLE memories ADD COLUMN position INTEGER;
CREATE INDEX memories_by_thread ON memories (namespace, thread, coalesce(position, 9007199254740992), created_at, id) WHERE thread <> '';
