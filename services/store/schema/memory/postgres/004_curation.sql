-- +goose Up
-- What a curator decided about new memories. A row goes with either of its memories, and when either turns sensitive: it
-- may hold their text.
CREATE TABLE memory.curation_decisions (
    namespace       text        NOT NULL,
    id              uuid        NOT NULL,
    memory_id       uuid        NOT NULL,
    memory_revision bigint      NOT NULL,
    target_id       uuid,
    target_revision bigint      NOT NULL,
    sensitive       boolean     NOT NULL DEFAULT false CHECK (NOT sensitive),
    action          text        NOT NULL CHECK (action IN ('add', 'update', 'supersede', 'noop')),
    -- The revisions that the decision, or its reversal, made of the memories; 0 of one that it left alone.
    memory_after    bigint      NOT NULL,
    target_after    bigint      NOT NULL,
    -- The target's content as the decision found it and as it wrote it.
    content_before  text        NOT NULL,
    content_after   text        NOT NULL,
    model           text        NOT NULL,
    decided_at      timestamptz NOT NULL,
    reverted_at     timestamptz,
    PRIMARY KEY (namespace, id),
    -- Judged once, whatever crashes.
    UNIQUE (namespace, memory_id, memory_revision),
    CHECK ((action = 'add') = (target_id IS NULL)),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (namespace, target_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE memory.curation_decisions_0 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE memory.curation_decisions_1 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE memory.curation_decisions_2 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE memory.curation_decisions_3 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE memory.curation_decisions_4 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE memory.curation_decisions_5 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE memory.curation_decisions_6 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE memory.curation_decisions_7 PARTITION OF memory.curation_decisions FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX curation_decisions_by_time ON memory.curation_decisions (namespace, decided_at DESC, id DESC);
CREATE INDEX curation_decisions_by_target ON memory.curation_decisions (namespace, target_id) WHERE target_id IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION memory.purge_decisions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memory.curation_decisions WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM memory.curation_decisions WHERE namespace = OLD.namespace AND target_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER purge_decisions BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION memory.purge_decisions();

SELECT memory.isolate('memory');
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.curation_decisions TO triskele_memory;

-- +goose Down
DELETE FROM memory.indexes WHERE name = 'curation';
DROP TRIGGER purge_decisions ON memory.memories;
DROP FUNCTION memory.purge_decisions;
DROP TABLE memory.curation_decisions;
