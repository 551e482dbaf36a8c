-- Distributes the tables over the nodes of a Citus cluster, by namespace: all rows of a namespace are on one node. It runs on the
-- coordinator in one transaction, and leaves alone what is distributed already.
--
-- Partitions within a shard would be many small tables for nothing, so a new plain table takes the place of each partitioned one.
DO $distribute$
DECLARE
    kept CONSTANT text := 'triskele_undistributed';
    tables text[];
    keys text[]; -- statements that make the foreign keys again
    t text;
    old regclass;
    r record;
BEGIN
    SET LOCAL search_path = pg_catalog, pg_temp;
    SET LOCAL client_min_messages = 'warning';
    SET LOCAL citus.multi_shard_modify_mode = 'sequential';
    SELECT array_agg(x.t::text ORDER BY x.t <> 'memory.namespaces'::regclass, x.t <> 'memory.memories'::regclass, x.t) INTO tables
    FROM (SELECT 'memory.namespaces'::regclass UNION SELECT 'memory.log' UNION SELECT * FROM memory.tables_by_namespace()) AS x (t)
    WHERE x.t NOT IN (SELECT logicalrelid FROM pg_dist_partition WHERE partmethod = 'h');
    IF tables IS NULL THEN
        RETURN;
    END IF;

    -- Triggers end here: the programs of this release do without.
    FOR r IN SELECT tgname, tgrelid::regclass AS t FROM pg_trigger WHERE NOT tgisinternal AND tgparentid = 0
        AND (tgrelid::regclass::text = ANY (tables) OR tgrelid = 'dense.models'::regclass) LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', r.tgname, r.t);
    END LOOP;

    SELECT array_agg(format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) ORDER BY oid) INTO keys
    FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND (conrelid::regclass::text = ANY (tables) OR confrelid::regclass::text = ANY (tables));
    FOR r IN SELECT conname, conrelid::regclass AS t FROM pg_constraint
        WHERE contype = 'f' AND conparentid = 0 AND (conrelid::regclass::text = ANY (tables) OR confrelid::regclass::text = ANY (tables)) LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', r.t, r.conname);
    END LOOP;

    -- Nodes do not hear of set_config, but of SET LOCAL.
    CREATE OR REPLACE FUNCTION memory.enter(namespace text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('SET LOCAL triskele.namespace TO %L', namespace);
        RETURN namespace;
    END $$;
    PERFORM create_distributed_function('memory.scope()');

    FOREACH t IN ARRAY ARRAY['memory.indexes', 'dense.models', 'dense.model_rows'] LOOP
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = t::regclass AND partmethod = 'n' AND repmodel = 't') THEN
            PERFORM create_reference_table(t);
        END IF;
    END LOOP;

    EXECUTE format('CREATE SCHEMA %I', kept);
    FOREACH t IN ARRAY tables LOOP
        old := t::regclass;
        EXECUTE format('ALTER TABLE %s SET SCHEMA %I', t, kept);
        EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING GENERATED INCLUDING STORAGE)', t, old);
        IF (SELECT relrowsecurity FROM pg_class WHERE oid = old) THEN
            EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
        END IF;
        FOR r IN SELECT polname, CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END AS command,
                (SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ') FROM unnest(polroles) role) AS roles,
                pg_get_expr(polqual, polrelid) AS shown, pg_get_expr(polwithcheck, polrelid) AS written
            FROM pg_policy WHERE polrelid = old LOOP
            EXECUTE format('CREATE POLICY %I ON %s FOR %s TO %s', r.polname, t, r.command, r.roles)
                || coalesce(' USING (' || r.shown || ')', '') || coalesce(' WITH CHECK (' || r.written || ')', '');
        END LOOP;
        FOR r IN
            SELECT a.grantee, a.privilege_type AS privilege, '' AS columns FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = old AND a.grantee <> c.relowner
            UNION ALL
            SELECT x.grantee, x.privilege_type, format('(%s)', string_agg(quote_ident(a.attname), ', ')) FROM pg_attribute a, aclexplode(a.attacl) x
            WHERE a.attrelid = old AND NOT a.attisdropped GROUP BY 1, 2
        LOOP
            EXECUTE format('GRANT %s %s ON %s TO %s', r.privilege, r.columns, t, r.grantee::regrole);
        END LOOP;
        PERFORM create_distributed_table(t, CASE t WHEN 'memory.namespaces' THEN 'name' ELSE 'namespace' END,
            colocate_with => CASE WHEN t = 'memory.namespaces' THEN 'none' ELSE 'memory.namespaces' END);
        EXECUTE format('INSERT INTO %s SELECT * FROM %s', t, old);
    END LOOP;
    FOREACH t IN ARRAY coalesce(keys, '{}') LOOP
        EXECUTE t;
    END LOOP;

    IF 'lexical.documents' = ANY (tables) THEN
        DROP VIEW lexical.terms;
        CREATE VIEW lexical.terms WITH (security_barrier) AS
        SELECT namespace, memory_id, terms FROM lexical.documents
        WHERE CASE current_setting('triskele.namespace', true) WHEN namespace THEN true WHEN '*' THEN true ELSE memory.scope() IS NULL END;
        GRANT SELECT ON lexical.terms TO triskele_lexical;
    END IF;
    EXECUTE format('DROP SCHEMA %I CASCADE', kept);
    EXECUTE format('ALTER DATABASE %I SET citus.propagate_set_commands = %L', current_database(), 'local'); -- for connections from now on
END $distribute$;

-- Shards move while they are written to if nodes can tell each row from others, and fast if they do by a key. Followers of what was
-- in the log load their images anew.
DO $key$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = 'memory.log'::regclass AND indisprimary) THEN
        DELETE FROM memory.log;
        ALTER TABLE memory.log ADD CONSTRAINT log_pkey PRIMARY KEY (namespace, revision, memory_id, part);
        ALTER TABLE memory.log REPLICA IDENTITY DEFAULT;
    END IF;
END $key$;

DO $identify$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT c.oid FROM pg_class c JOIN pg_dist_partition d ON d.logicalrelid = c.oid AND d.partmethod = 'h'
        WHERE c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', t);
    END LOOP;
END $identify$;

-- Calls of these run on the node of their first argument.
CREATE OR REPLACE FUNCTION memory.node(namespace text) RETURNS int LANGUAGE sql STABLE AS $$
    SELECT groupid FROM pg_catalog.pg_dist_placement WHERE shardid = get_shard_id_for_distribution_column('memory.namespaces', namespace) LIMIT 1
$$;
CREATE OR REPLACE FUNCTION memory.placements() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT max(placementid) FROM pg_catalog.pg_dist_placement $$;
ALTER FUNCTION memory.positions(text, text[]) RESET plan_cache_mode;
ALTER FUNCTION memory.revision(text) RESET plan_cache_mode;
ALTER FUNCTION memory.behind(text, text, int) RESET plan_cache_mode;
SELECT create_distributed_function('memory.revision(text)', 'asked', colocate_with := 'memory.namespaces');
SELECT create_distributed_function('memory.committed(text)', 'beside', colocate_with := 'memory.namespaces');
SELECT create_distributed_function('memory.behind(text, text, int)', 'asked', colocate_with := 'memory.namespaces');
SELECT create_distributed_function('memory.positions(text, text[])', 'beside', colocate_with := 'memory.namespaces');
