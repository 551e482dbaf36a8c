-- +goose Up
CREATE SCHEMA memory;

CREATE TABLE memory.namespaces (
    name       text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    epoch      uuid NOT NULL DEFAULT gen_random_uuid() -- another one is another namespace of the same name
);
INSERT INTO memory.namespaces (name) VALUES ('default');

-- Numbers writes, so that a caller can ask for an answer that knows of one. It is no order of commits: of two writes
-- at once, either may have the lower number. But a write that began after another was acknowledged has a higher one,
-- and that is all a revision token promises.
CREATE SEQUENCE memory.write_sequence;

CREATE TABLE memory.memories (
    namespace         text        NOT NULL REFERENCES memory.namespaces (name) DEFERRABLE, -- for the rows to follow a new name before the key is checked
    id                uuid        NOT NULL,
    content           text        NOT NULL CHECK (octet_length(content) BETWEEN 1 AND 65536),
    title             text        NOT NULL,
    expanded_keywords text[]      NOT NULL,
    tags              text[]      NOT NULL,
    category          text        NOT NULL,
    metadata          jsonb       NOT NULL CHECK (jsonb_typeof(metadata) = 'object'),
    importance        float8      NOT NULL CHECK (importance BETWEEN 0 AND 1),
    sensitive         boolean     NOT NULL,
    source            text        NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    occurred_at       timestamptz,
    expires_at        timestamptz,
    supersedes        uuid,
    superseded_by     uuid,
    revision          bigint      NOT NULL CHECK (revision >= 1),
    idempotency_key   text,
    links             jsonb       NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(links) = 'array'),
    sequence          bigint      NOT NULL DEFAULT nextval('memory.write_sequence'), -- of the write that made the revision
    PRIMARY KEY (namespace, id),
    -- The target of derived tables' foreign keys: a row derived from a sensitive memory cannot exist.
    UNIQUE (namespace, id, sensitive),
    UNIQUE (namespace, idempotency_key)
) PARTITION BY HASH (namespace);

CREATE TABLE memory.memories_0 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE memory.memories_1 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE memory.memories_2 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE memory.memories_3 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE memory.memories_4 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE memory.memories_5 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE memory.memories_6 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE memory.memories_7 PARTITION OF memory.memories FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX memories_by_time ON memory.memories (namespace, created_at DESC, id DESC);
CREATE INDEX memories_by_supersedes ON memory.memories (namespace, supersedes) WHERE supersedes IS NOT NULL;

-- The derived indexes there are, and whether sensitive memories go there too. A row is what makes work be enqueued.
CREATE TABLE memory.indexes (
    name      text    NOT NULL,
    sensitive boolean NOT NULL,
    PRIMARY KEY (name, sensitive)
);
INSERT INTO memory.indexes (name, sensitive) VALUES ('dense', false), ('graph', false);

-- What each derived index still has to catch up with. A row per memory and index, so that several changes of one
-- memory coalesce; not_before doubles as the lease of the worker that claimed it;
-- sequence is the newest write that a row stands for, since the oldest that its index does not know of yet.
CREATE TABLE memory.index_queue (
    namespace   text        NOT NULL,
    index_name  text        NOT NULL,
    memory_id   uuid        NOT NULL,
    sensitive   boolean     NOT NULL DEFAULT false,
    revision    bigint      NOT NULL,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    not_before  timestamptz NOT NULL DEFAULT now(),
    attempts    integer     NOT NULL DEFAULT 0,
    dead        boolean     NOT NULL DEFAULT false,
    last_error  text        NOT NULL DEFAULT '',
    sequence    bigint      NOT NULL DEFAULT 0,
    since       bigint      NOT NULL DEFAULT 0,
    -- In this order it also serves the foreign key's cascade and the purge.
    PRIMARY KEY (namespace, memory_id, index_name),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE,
    FOREIGN KEY (index_name, sensitive) REFERENCES memory.indexes (name, sensitive) ON DELETE CASCADE
);
CREATE INDEX index_queue_due ON memory.index_queue (index_name, not_before) WHERE NOT dead;
CREATE INDEX index_queue_since ON memory.index_queue (namespace, index_name, since);

-- +goose StatementBegin
CREATE FUNCTION memory.purge_queue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memory.index_queue WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- A task says whether its memory is sensitive, so it goes when that changes, whichever way.
CREATE TRIGGER purge_queue BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive <> OLD.sensitive) EXECUTE FUNCTION memory.purge_queue();

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

GRANT SELECT ON schema_version_memory TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;
GRANT USAGE ON SCHEMA memory TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memory TO triskele_memory;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA memory TO triskele_memory;
-- What filters and orders hits, and nothing of what a memory says.
GRANT SELECT (namespace, id, importance, created_at, updated_at, occurred_at, expires_at, superseded_by, tags, category, metadata, sequence) ON memory.memories TO triskele_lexical;
GRANT SELECT, UPDATE (id) ON memory.memories TO triskele_dense, triskele_graph;
GRANT SELECT, DELETE, UPDATE (not_before, attempts, dead, last_error) ON memory.index_queue TO triskele_dense, triskele_graph;
GRANT SELECT ON SEQUENCE memory.write_sequence TO triskele_dense, triskele_graph;

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

GRANT SELECT, INSERT, UPDATE, DELETE ON memory.curation_decisions TO triskele_memory;

-- Which memories changed, for those who keep a copy in memory (package replica): a change is later than a copy if the
-- copy's snapshot does not see its writer. A row is no more than an id, and is removed minutes later.
CREATE TABLE memory.log (
    namespace text   NOT NULL,
    memory_id uuid   NOT NULL,
    part      "char" NOT NULL, -- m: the memory and its words, d: its vectors, g: its graph
    writer    xid8   NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX log_by_writer ON memory.log (namespace, writer);

-- For triggers of derived tables; their transition table is called changed. A namespace that is being deleted or renamed is no
-- longer there by its old name.
-- +goose StatementBegin
CREATE FUNCTION memory.log_derived() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO memory.log (namespace, memory_id, part)
    SELECT DISTINCT c.namespace, c.memory_id, TG_ARGV[0]::"char" FROM changed c JOIN memory.namespaces n ON n.name = c.namespace;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION memory.log_change(changed_in text, ids uuid[]) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO memory.log (namespace, memory_id, part) SELECT n.name, id, 'm' FROM memory.namespaces n CROSS JOIN unnest(ids) id WHERE n.name = changed_in
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION memory.prune_log(before xid8) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM memory.log WHERE writer < before
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION memory.log_derived, memory.log_change, memory.prune_log FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.log_change TO triskele_memory;
GRANT EXECUTE ON FUNCTION memory.prune_log TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;
GRANT SELECT ON memory.log, memory.namespaces TO triskele_lexical, triskele_dense, triskele_graph;

-- A namespace is renamed by changing its row and forgotten by deleting it. A trigger of each track then brings the
-- track's rows along, whole tables at a time and not memory by memory. They fire in the order of their names: memories
-- are copied first and deleted last, with what other tracks derive from them in between. Rows are copied because the
-- name decides in which partition they are.

-- Names in the order of their bytes, whatever the database's collation, as on SQLite.
CREATE INDEX namespaces_by_name ON memory.namespaces (name COLLATE "C");

-- Copies a table's rows of one namespace to another: all columns there are, so that one added later is not forgotten,
-- but for those that get their default.
-- +goose StatementBegin
CREATE FUNCTION memory.copy_rows(source regclass, old text, new text, but_for text[] DEFAULT '{}') RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text := (
        SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
        WHERE attrelid = source AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'namespace' AND attname <> ALL (but_for)
    );
BEGIN
    EXECUTE format('INSERT INTO %1$s (namespace, %2$s) SELECT $2, %2$s FROM %1$s WHERE namespace = $1', source, columns) USING old, new;
END $$;
-- +goose StatementEnd

-- The tables of this track that have rows of a namespace, besides the memories.
-- +goose StatementBegin
CREATE FUNCTION memory.beside_memories() RETURNS SETOF regclass LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
    WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.oid NOT IN ('memory.memories'::regclass, 'memory.log'::regclass)
$$;
-- +goose StatementEnd

-- Whoever is changing a memory is waited for, and whoever comes later finds it gone.
-- +goose StatementBegin
CREATE FUNCTION memory.copy_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside regclass;
BEGIN
    PERFORM FROM memory.memories WHERE namespace = OLD.name ORDER BY id FOR UPDATE;
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('memory.memories', OLD.name, NEW.name);
        FOR beside IN SELECT * FROM memory.beside_memories() LOOP
            PERFORM memory.copy_rows(beside, OLD.name, NEW.name);
        END LOOP;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION memory.empty_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside regclass;
BEGIN
    FOR beside IN SELECT * FROM memory.beside_memories() LOOP
        EXECUTE format('DELETE FROM %s WHERE namespace = $1', beside) USING OLD.name;
    END LOOP;
    DELETE FROM memory.memories WHERE namespace = OLD.name;
    DELETE FROM memory.log WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION memory.begin_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.epoch := gen_random_uuid();
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER begin_epoch BEFORE UPDATE OF name ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION memory.begin_epoch();
CREATE TRIGGER follow_1_memory AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION memory.copy_namespace();
CREATE TRIGGER follow_3_memory AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION memory.empty_namespace();

-- For the sweep, which looks for the memories of all namespaces that expired long ago.
CREATE INDEX memories_by_expiry ON memory.memories (expires_at) WHERE expires_at IS NOT NULL;

-- The state of a namespace's memories, for those who keep what they derived from it: docs/adr/0023-quorum-and-cache.md.
--
-- Each transaction that changes memories writes its own number into a row that nobody else is writing, so none waits for
-- another; there are as many rows as there were writers at once. A number that was written over comes never back, so
-- snapshots that see the same numbers see the same memories. What is written over is in no index, so it leaves no trace there.
CREATE TABLE memory.changes (
    namespace text NOT NULL,
    lane      uuid NOT NULL DEFAULT gen_random_uuid(),
    writer    xid8 NOT NULL,
    PRIMARY KEY (namespace, lane)
) PARTITION BY HASH (namespace);
CREATE TABLE memory.changes_0 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE memory.changes_1 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE memory.changes_2 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE memory.changes_3 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE memory.changes_4 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE memory.changes_5 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE memory.changes_6 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE memory.changes_7 PARTITION OF memory.changes FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- A namespace that is being deleted or renamed is no longer there by its old name.
-- +goose StatementBegin
CREATE FUNCTION memory.note_changes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    changed_in text;
BEGIN
    INSERT INTO memory.log (namespace, memory_id, part) SELECT c.namespace, c.id, 'm' FROM changed c JOIN memory.namespaces n ON n.name = c.namespace;
    FOR changed_in IN SELECT name FROM memory.namespaces WHERE name IN (SELECT namespace FROM changed) LOOP
        CONTINUE WHEN EXISTS (SELECT FROM memory.changes WHERE namespace = changed_in AND writer = pg_current_xact_id());
        UPDATE memory.changes SET writer = pg_current_xact_id() WHERE namespace = changed_in AND lane = (
            SELECT lane FROM memory.changes WHERE namespace = changed_in ORDER BY lane LIMIT 1 FOR UPDATE SKIP LOCKED
        );
        IF NOT FOUND THEN
            INSERT INTO memory.changes (namespace, writer) VALUES (changed_in, pg_current_xact_id());
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION memory.note_changes FROM PUBLIC;
CREATE TRIGGER note_inserted AFTER INSERT ON memory.memories REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.note_changes();
CREATE TRIGGER note_updated AFTER UPDATE ON memory.memories REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.note_changes();
CREATE TRIGGER note_deleted AFTER DELETE ON memory.memories REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION memory.note_changes();

SELECT memory.isolate('memory');
GRANT SELECT ON memory.changes TO triskele_memory;
