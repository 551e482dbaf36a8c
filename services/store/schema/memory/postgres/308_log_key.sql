-- +goose Up
-- A distributed log has a primary key: nodes then find a row that is deleted while its shard moves, instead of reading all of the log for
-- it. So what a transaction says twice of a memory is noted once.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.note(changed_in text, ids uuid[], parts text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    IF cardinality(ids) = 0 THEN
        RETURN; -- a number without a change looks like a change that was pruned
    END IF;
    INSERT INTO memory.changes AS c (namespace, lane, writer, revision, memories)
    SELECT n.name, '00000000-0000-0000-0000-000000000000', pg_current_xact_id(), 1, ('m' = ANY (parts))::int FROM memory.namespaces n WHERE n.name = changed_in
    ON CONFLICT (namespace, lane) DO UPDATE SET writer = excluded.writer, revision = c.revision + 1, memories = c.memories + excluded.memories
    RETURNING c.revision INTO number;
    IF number IS NOT NULL THEN
        INSERT INTO memory.log (namespace, memory_id, part, revision)
        SELECT n.name, u.id, u.part::"char", number FROM memory.namespaces n CROSS JOIN unnest(ids, parts) AS u (id, part) WHERE n.name = changed_in
        ON CONFLICT DO NOTHING;
    END IF;
END $$;
-- +goose StatementEnd
