-- +goose Up
-- The thread that a memory is part of, '' for none, and its place in it. Memories without a place are in the order of created_at.
ALTER TABLE memory.memories ADD COLUMN thread text NOT NULL DEFAULT '', ADD COLUMN position bigint;
CREATE INDEX memories_by_thread ON memory.memories (namespace, thread, (coalesce(position, 9007199254740992)), created_at, id) WHERE thread <> '';
GRANT SELECT (thread, position) ON memory.memories TO triskele_lexical;
