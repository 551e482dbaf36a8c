-- +goose Up
-- What is asked all the time is planned once for all namespaces. Left to itself, PostgreSQL plans each call anew where that finds a
-- plan that reads one partition of changes. Planning takes several times as long as running either plan. A cluster plans for each
-- namespace: it has to know the node.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.positions(beside text, asked text[]) RETURNS TABLE (namespace text, timeline bigint, epoch text, revision bigint)
    LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    current bigint := memory.timeline();
BEGIN
    PERFORM memory.enter('*');
    RETURN QUERY
    SELECT n.name, current, n.epoch::text, coalesce(c.revision, 0)
    FROM memory.namespaces n LEFT JOIN memory.changes c ON c.namespace = n.name AND c.lane = '00000000-0000-0000-0000-000000000000'
    WHERE n.name = ANY (asked);
END $$;
-- +goose StatementEnd

-- A number that changes when rows of a namespace move to another node. Distributing the tables replaces this function.
CREATE FUNCTION memory.placements() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT 0::bigint $$;

-- What the server that runs it has committed: while both are the same, so are the positions of the namespaces that it has. It should
-- run on the node of its argument.
-- +goose StatementBegin
CREATE FUNCTION memory.committed(beside text) RETURNS TABLE (snapshot text, placements bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT memory.timeline() || ' ' || pg_current_snapshot(), memory.placements();
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('pg_catalog.pg_dist_node') IS NULL THEN
        ALTER FUNCTION memory.positions(text, text[]) SET plan_cache_mode = force_generic_plan;
        ALTER FUNCTION memory.revision(text) SET plan_cache_mode = force_generic_plan;
        ALTER FUNCTION memory.behind(text, text, int) SET plan_cache_mode = force_generic_plan;
    END IF;
END $$;
-- +goose StatementEnd
