-- +goose Up
-- A distributed engine takes no triggers and no sub-selects in policies, and its nodes number transactions each on its own.
-- Programs from here on say in their statements what triggers say for the programs before them. Both run side by side: a
-- transaction of the former sets triskele.notes, and the triggers then leave everything to it.

-- The namespace that a transaction is about. Distributing the tables replaces this function: the nodes do not hear of set_config.
CREATE FUNCTION memory.enter(namespace text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('triskele.namespace', $1, true) $$;

-- Whether the transaction has said that it notes its changes itself.
CREATE FUNCTION memory.notes_itself() RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT coalesce(current_setting('triskele.notes', true), '') = 'own' $$;

-- A CASE is estimated to let half of the rows through, where an OR would be estimated at hundreds of times less. The function
-- is called for rows that are hidden: it fails if no namespace was said.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.isolate(schema regnamespace, exempt regclass[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT c.oid::regclass AS name, c.relispartition AS partition
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace'
        WHERE c.relnamespace = schema AND c.relkind IN ('r', 'p') AND NOT c.relrowsecurity
            AND c.oid <> ALL (exempt) AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = ANY (exempt))
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.name);
        IF NOT t.partition THEN
            EXECUTE format($policy$
                CREATE POLICY one_namespace ON %s
                USING (CASE current_setting('triskele.namespace', true) WHEN namespace THEN true WHEN '*' THEN true ELSE memory.scope() IS NULL END)
            $policy$, t.name);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Rewrites the policies of a schema that have the sub-selects of before.
-- +goose StatementBegin
CREATE FUNCTION memory.simplify_policies(of regnamespace) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    p record;
BEGIN
    FOR p IN
        SELECT polname, polrelid::regclass AS relation, pg_get_expr(polqual, polrelid) AS condition,
            CASE polrelid WHEN 'memory.namespaces'::regclass THEN 'name' ELSE 'namespace' END AS key
        FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE c.relnamespace = of AND pg_get_expr(polqual, polrelid) ~ 'SELECT memory.scope'
    LOOP
        EXECUTE format('ALTER POLICY %I ON %s USING (%s)', p.polname, p.relation, regexp_replace(p.condition, 'CASE.*END',
            format('CASE current_setting(''triskele.namespace'', true) WHEN %s THEN true WHEN ''*'' THEN true ELSE memory.scope() IS NULL END', p.key)));
    END LOOP;
END $$;
-- +goose StatementEnd
SELECT memory.simplify_policies('memory');

-- A namespace's changes are numbered: a transaction takes the next number at its end and keeps the row of it until it commits, so
-- the numbers are in the order of commits. The row's lane is nil; other lanes are of earlier programs.
ALTER TABLE memory.changes ADD COLUMN revision bigint NOT NULL DEFAULT 0,
    ADD COLUMN memories bigint NOT NULL DEFAULT 0; -- how many of the changes were of memories themselves
ALTER TABLE memory.log ADD COLUMN revision bigint NOT NULL DEFAULT 0, ADD COLUMN logged_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX log_by_revision ON memory.log (namespace, revision);

-- Notes changes of memories; part n says what changed of the memory in place n. A namespace that is no longer there has none. Rows
-- that come from a table are inserted where it is; rows from arrays alone would be copied, which row security forbids to services.
-- +goose StatementBegin
CREATE FUNCTION memory.note(changed_in text, ids uuid[], parts text[]) RETURNS void LANGUAGE plpgsql AS $$
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
        SELECT n.name, u.id, u.part::"char", number FROM memory.namespaces n CROSS JOIN unnest(ids, parts) AS u (id, part) WHERE n.name = changed_in;
    END IF;
END $$;
-- +goose StatementEnd
GRANT INSERT, UPDATE ON memory.changes TO triskele_memory, triskele_dense, triskele_graph;
GRANT SELECT ON memory.changes TO triskele_lexical, triskele_dense, triskele_graph;
GRANT INSERT ON memory.log TO triskele_memory, triskele_dense, triskele_graph;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.note_changes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT memory.notes_itself() THEN
        PERFORM memory.note(c.namespace, array_agg(c.id), array_agg('m'::text)) FROM changed c GROUP BY c.namespace ORDER BY c.namespace;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.log_derived() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT memory.notes_itself() THEN
        PERFORM memory.note(c.namespace, array_agg(c.memory_id), array_agg(TG_ARGV[0]::text)) FROM (SELECT DISTINCT namespace, memory_id FROM changed) c
        GROUP BY c.namespace ORDER BY c.namespace;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.log_change(changed_in text, ids uuid[]) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT memory.note(changed_in, ids, array_fill('m'::text, ARRAY[cardinality(ids)]))
$$;
-- +goose StatementEnd

-- Removes old rows of the log, and tells the followers of earlier programs, who go by transactions.
-- +goose StatementBegin
CREATE FUNCTION memory.prune_log(keep interval) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest xid8;
BEGIN
    SELECT l.writer INTO newest FROM memory.log l WHERE l.logged_at < now() - keep ORDER BY l.writer DESC LIMIT 1;
    IF FOUND THEN
        UPDATE memory.log_floor SET writer = newest WHERE writer < newest;
        DELETE FROM memory.log WHERE logged_at < now() - keep;
    END IF;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION memory.prune_log(interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.prune_log(interval) TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;

-- The tables of all tracks that have rows of a namespace, the memories first. The log is about copies of a former name only.
CREATE FUNCTION memory.tables_by_namespace() RETURNS SETOF regclass LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
    WHERE c.relnamespace::regnamespace::text IN ('memory', 'lexical', 'dense', 'graph') AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.oid <> 'memory.log'::regclass
    ORDER BY c.oid <> 'memory.memories'::regclass, c.oid
$$;

-- Gives a namespace's rows to another name, or removes them if that is NULL, and returns how many memories there were; NULL if the
-- namespace does not exist. Writers are waited for, and later ones wait. It runs as the owner from its first statement, so all
-- of it is one transaction on each node.
-- +goose StatementBegin
CREATE FUNCTION memory.move_namespace(old text, new text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    moved bigint;
    made timestamptz;
    t regclass;
BEGIN
    SELECT n.created_at INTO made FROM memory.namespaces n WHERE n.name = old FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM memory.memories m WHERE m.namespace = old ORDER BY m.id FOR UPDATE;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF new IS NOT NULL THEN
        INSERT INTO memory.namespaces (name, created_at) VALUES (new, made);
        -- The new name may have settings already, and numbers of a namespace that was there before.
        DELETE FROM lexical.settings s WHERE s.namespace = new;
        DELETE FROM memory.changes c WHERE c.namespace = new;
        FOR t IN SELECT * FROM memory.tables_by_namespace() LOOP
            PERFORM memory.copy_rows(t, old, new);
        END LOOP;
        PERFORM memory.note(new, '{00000000-0000-0000-0000-000000000000}', '{m}');
    END IF;
    FOR t IN SELECT * FROM memory.tables_by_namespace() ORDER BY 1 = 'memory.memories'::regclass LOOP
        EXECUTE format('DELETE FROM %s WHERE namespace = $1', t) USING old;
    END LOOP;
    DELETE FROM memory.log l WHERE l.namespace = old;
    DELETE FROM memory.namespaces n WHERE n.name = old;
    RETURN moved;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION memory.move_namespace FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.move_namespace TO triskele_memory;
