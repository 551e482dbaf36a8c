-- +goose Up
-- What is asked all the time, as functions that enter their namespace by themselves. Citus runs such a call on the node of its first
-- argument, in one round trip and in no transaction block. The same statements from a client need a block, which takes three.

-- The node that has a namespace's rows. Distributing the tables replaces this function.
CREATE FUNCTION memory.node(namespace text) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 0 $$;

-- The timeline id of the server that runs it. A failover or a restore begins a new timeline; transaction numbers lost by it may be
-- used again. A standby has the timeline of the WAL that it replays.
-- +goose StatementBegin
CREATE FUNCTION memory.timeline() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline) FROM pg_control_checkpoint() c, pg_control_recovery() r);
    END IF;
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
END $$;
-- +goose StatementEnd

-- A namespace, if it exists: how often its memories changed, and whether all are indexed.
-- +goose StatementBegin
CREATE FUNCTION memory.revision(asked text) RETURNS TABLE (created_at timestamptz, changes bigint, indexed boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory.enter(asked);
    RETURN QUERY
    SELECT n.created_at, coalesce((SELECT max(c.memories) FROM memory.changes c WHERE c.namespace = asked), 0),
        NOT EXISTS (SELECT FROM memory.index_queue q WHERE q.namespace = asked AND NOT q.dead)
    FROM memory.namespaces n WHERE n.name = asked;
END $$;
-- +goose StatementEnd

-- The positions of those of the namespaces that exist. All should be on the node of the first argument. The planner would have all
-- rows read after an import, by the tables' sizes.
-- +goose StatementBegin
CREATE FUNCTION memory.positions(beside text, asked text[]) RETURNS TABLE (namespace text, timeline bigint, epoch text, revision bigint)
    LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM memory.enter('*');
    RETURN QUERY
    SELECT n.name, memory.timeline(), n.epoch::text, coalesce(c.revision, 0)
    FROM memory.namespaces n LEFT JOIN memory.changes c ON c.namespace = n.name AND c.lane = '00000000-0000-0000-0000-000000000000'
    WHERE n.name = ANY (asked);
END $$;
-- +goose StatementEnd
