-- +goose Up
-- Numbers writes, so that a caller can ask for an answer that knows of one. It is no order of commits: of two writes
-- at once, either may have the lower number. But a write that began after another was acknowledged has a higher one,
-- and that is all a revision token promises.
CREATE SEQUENCE memory.write_sequence;

-- sequence is the write that made the revision.
ALTER TABLE memory.memories
    ADD COLUMN links    jsonb  NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(links) = 'array'),
    ADD COLUMN sequence bigint NOT NULL DEFAULT nextval('memory.write_sequence');

-- The derived indexes there are, and whether sensitive memories go there too. A row is what makes work be enqueued.
CREATE TABLE memory.indexes (
    name      text    NOT NULL,
    sensitive boolean NOT NULL,
    PRIMARY KEY (name, sensitive)
);
INSERT INTO memory.indexes (name, sensitive) VALUES ('dense', false), ('graph', false);

-- sequence is the newest write that a row stands for, since the oldest that its index does not know of yet.
ALTER TABLE memory.index_queue
    ADD COLUMN sequence bigint NOT NULL DEFAULT 0,
    ADD COLUMN since    bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT index_queue_sensitive_check,
    ADD FOREIGN KEY (index_name, sensitive) REFERENCES memory.indexes (name, sensitive) ON DELETE CASCADE;
CREATE INDEX index_queue_since ON memory.index_queue (namespace, index_name, since);

-- A task says whether its memory is sensitive, so it goes when that changes, whichever way.
DROP TRIGGER purge_queue ON memory.memories;
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive <> OLD.sensitive) EXECUTE FUNCTION memory.purge_queue();

-- +goose Down
DROP TRIGGER purge_queue ON memory.memories;
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION memory.purge_queue();
DROP INDEX memory.index_queue_since;
DELETE FROM memory.index_queue WHERE sensitive OR index_name NOT IN ('dense', 'graph');
ALTER TABLE memory.index_queue
    DROP CONSTRAINT index_queue_index_name_sensitive_fkey,
    ADD CONSTRAINT index_queue_sensitive_check CHECK (NOT sensitive),
    DROP COLUMN since,
    DROP COLUMN sequence;
DROP TABLE memory.indexes;
ALTER TABLE memory.memories DROP COLUMN links, DROP COLUMN sequence;
DROP SEQUENCE memory.write_sequence;
