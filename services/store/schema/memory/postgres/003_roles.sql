-- +goose Up
-- One role per service, with the least it needs. Users who log in are made by the operator, IN ROLE one of these. The
-- owner of the tables is whoever migrates. Roles belong to the whole server, so another database's migration may have
-- made them, or be making them now.
-- +goose StatementBegin
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['triskele_memory', 'triskele_lexical', 'triskele_dense', 'triskele_graph'] LOOP
        CONTINUE WHEN to_regrole(role) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'role % is missing and % may not create it: let an administrator run "CREATE ROLE triskele_memory; CREATE ROLE triskele_lexical; CREATE ROLE triskele_dense; CREATE ROLE triskele_graph;", then migrate again', role, current_user
                    USING ERRCODE = 'insufficient_privilege';
        END;
    END LOOP;
END $$;
-- +goose StatementEnd

-- The namespace that a transaction is about, * for all. Not to have said it is an error: no rows would look like none
-- stored.
-- +goose StatementBegin
CREATE FUNCTION memory.scope() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    scope text := current_setting('triskele.namespace', true);
BEGIN
    IF coalesce(scope, '') = '' THEN
        RAISE EXCEPTION 'triskele.namespace is not set' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN scope;
END $$;
-- +goose StatementEnd

-- Row-level security, the lock behind each statement's own predicate, for the tables of a schema that have a column
-- namespace, have no such lock yet and are not exempt. To be called by each later step that makes tables. A partition
-- gets no policy: only through its parent do others than the owner reach it.
--
-- How the condition is written matters: the sub-selects are evaluated once per statement, and a CASE is estimated to let
-- half of the rows through, where an OR would be estimated at hundreds of times less and spoil the plan.
-- +goose StatementBegin
CREATE FUNCTION memory.isolate(schema regnamespace, exempt regclass[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
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
                USING (CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END)
            $policy$, t.name);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

ALTER TABLE memory.namespaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory.namespaces
    USING (CASE WHEN name = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);

-- Workers lock the memories they index, for which PostgreSQL wants the right to update. They have it in name only.
ALTER TABLE memory.memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory.memories TO triskele_memory
    USING (CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);
CREATE POLICY one_namespace_read ON memory.memories FOR SELECT TO triskele_lexical, triskele_dense, triskele_graph
    USING (CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);
CREATE POLICY locked_only ON memory.memories FOR UPDATE TO triskele_dense, triskele_graph
    USING (CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END) WITH CHECK (false);

-- A worker sees the tasks of its own index.
ALTER TABLE memory.index_queue ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory.index_queue TO triskele_memory
    USING (CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);
CREATE POLICY dense_tasks ON memory.index_queue TO triskele_dense
    USING (index_name = 'dense' AND CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);
CREATE POLICY graph_tasks ON memory.index_queue TO triskele_graph
    USING (index_name = 'graph' AND CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);

SELECT memory.isolate('memory');

GRANT SELECT ON schema_version_memory TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;
GRANT USAGE ON SCHEMA memory TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memory TO triskele_memory;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA memory TO triskele_memory;
-- What filters and orders hits, and nothing of what a memory says.
GRANT SELECT (namespace, id, importance, created_at, expires_at, superseded_by, tags, category, metadata) ON memory.memories TO triskele_lexical;
GRANT SELECT, UPDATE (id) ON memory.memories TO triskele_dense, triskele_graph;
GRANT SELECT, DELETE, UPDATE (not_before, attempts, dead, last_error) ON memory.index_queue TO triskele_dense, triskele_graph;
GRANT SELECT ON SEQUENCE memory.write_sequence TO triskele_dense, triskele_graph;
