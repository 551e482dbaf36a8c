-- +goose Up
CREATE SCHEMA graph;

-- A name that memories share. The id is a hash of the key, so that both engines and every process agree on it without
-- asking. mentions counts the rows of memory_concepts; triggers keep it, and a concept nobody mentions does not exist:
-- its name may be somebody's private text.
--
-- What concepts and facts mean, for queries that name them otherwise: a byte for each dimension, beside the model that
-- made it, since vectors of different models cannot be compared. An empty one says that the model found nothing in the
-- text.
CREATE TABLE graph.concepts (
    namespace text   NOT NULL,
    id        bigint NOT NULL,
    key       text   NOT NULL,
    name      text   NOT NULL,
    kind      text   NOT NULL CHECK (kind IN ('title', 'tag', 'keyword', 'name')),
    mentions  bigint NOT NULL DEFAULT 0 CHECK (mentions >= 0),
    vector       bytea,
    vector_model text,
    CHECK ((vector IS NULL) = (vector_model IS NULL)),
    PRIMARY KEY (namespace, id)
) PARTITION BY HASH (namespace);

CREATE TABLE graph.concepts_0 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.concepts_1 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.concepts_2 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.concepts_3 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.concepts_4 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.concepts_5 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.concepts_6 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.concepts_7 PARTITION OF graph.concepts FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE TABLE graph.memory_concepts (
    namespace  text    NOT NULL,
    concept_id bigint  NOT NULL,
    memory_id  uuid    NOT NULL,
    sensitive  boolean NOT NULL DEFAULT false CHECK (NOT sensitive),
    salience   real    NOT NULL CHECK (salience BETWEEN 0 AND 1),
    PRIMARY KEY (namespace, concept_id, memory_id) INCLUDE (salience),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE graph.memory_concepts_0 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.memory_concepts_1 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.memory_concepts_2 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.memory_concepts_3 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.memory_concepts_4 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.memory_concepts_5 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.memory_concepts_6 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.memory_concepts_7 PARTITION OF graph.memory_concepts FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX memory_concepts_by_memory ON graph.memory_concepts (namespace, memory_id);

-- What somebody stated about two concepts: an import, a language model, or the text itself, whose facts are aliases. Two
-- concepts that a memory merely mentions are not stored: searches pair them. Both ends are mentions of the evidence.
--
-- A fact holds from valid_from to valid_to, as its source says, and no longer than its memory does. What a relation holds one
-- of at a time (single) is closed by the newest: which facts that are follows from the facts, so that forgetting the evidence
-- of a closing opens the fact again.
CREATE TABLE graph.facts (
    namespace  text        NOT NULL,
    memory_id  uuid        NOT NULL,
    source_id  bigint      NOT NULL,
    target_id  bigint      NOT NULL,
    relation   text        NOT NULL,
    sensitive  boolean     NOT NULL DEFAULT false CHECK (NOT sensitive),
    origin     text        NOT NULL DEFAULT 'text' CHECK (origin IN ('text', 'import', 'model')),
    single     boolean     NOT NULL DEFAULT false,
    valid_from timestamptz NOT NULL,
    valid_to   timestamptz,
    vector     bytea,
    vector_model text,
    CHECK ((vector IS NULL) = (vector_model IS NULL)),
    PRIMARY KEY (namespace, memory_id, source_id, target_id, relation),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE graph.facts_0 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.facts_1 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.facts_2 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.facts_3 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.facts_4 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.facts_5 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.facts_6 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.facts_7 PARTITION OF graph.facts FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX facts_by_source ON graph.facts (namespace, source_id);
CREATE INDEX facts_by_target ON graph.facts (namespace, target_id);

-- One transaction at a time changes the mentions of a namespace: counts of shared concepts cannot be changed
-- concurrently without deadlocks, since a cascade locks them in no particular order. Whoever takes the lock holds the
-- memories' row locks already.
-- +goose StatementBegin
CREATE FUNCTION graph.lock_namespace(namespace text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('graph ' || namespace, 0))
$$;
-- +goose StatementEnd

-- Planner settings: the statements touch a few rows by key, and a plan made while the table was small must not scan it
-- when it has grown: read as a whole for each concept, a namespace of 1,000 memories took half a minute to rename.
-- A cascade's triggers run for whoever forgets a memory, who has no right to the graph, hence SECURITY DEFINER.
-- +goose StatementBegin
CREATE FUNCTION graph.mentions_added() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET enable_hashjoin = off SET enable_mergejoin = off
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM graph.lock_namespace(n.namespace) FROM (SELECT DISTINCT namespace FROM added ORDER BY namespace) n;
    UPDATE graph.concepts c SET mentions = c.mentions + a.n
    FROM (SELECT namespace, concept_id, count(*) AS n FROM added GROUP BY namespace, concept_id) a
    WHERE c.namespace = a.namespace AND c.id = a.concept_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION graph.mentions_removed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET enable_hashjoin = off SET enable_mergejoin = off
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM graph.lock_namespace(n.namespace) FROM (SELECT DISTINCT namespace FROM removed ORDER BY namespace) n;
    UPDATE graph.concepts c SET mentions = c.mentions - r.n
    FROM (SELECT namespace, concept_id, count(*) AS n FROM removed GROUP BY namespace, concept_id) r
    WHERE c.namespace = r.namespace AND c.id = r.concept_id;
    DELETE FROM graph.concepts c USING removed r
    WHERE c.namespace = r.namespace AND c.id = r.concept_id AND c.mentions = 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER mentions_added AFTER INSERT ON graph.memory_concepts
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION graph.mentions_added();
CREATE TRIGGER mentions_removed AFTER DELETE ON graph.memory_concepts
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION graph.mentions_removed();

-- Edges that authors drew between memories. The target may not exist yet, or no longer, and then nothing here may say
-- which memory it was: an edge names its target by a hash of the id, and link_ends says which memory that is, for as long
-- as there is one that is not sensitive. Whatever changes a memory in the graph writes its row of link_ends, whose triggers
-- log the change.
CREATE TABLE graph.memory_links (
    namespace  text    NOT NULL,
    source_id  uuid    NOT NULL,
    target_key bigint  NOT NULL,
    relation   text    NOT NULL,
    sensitive  boolean NOT NULL DEFAULT false CHECK (NOT sensitive),
    PRIMARY KEY (namespace, source_id, target_key, relation),
    FOREIGN KEY (namespace, source_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE graph.memory_links_0 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.memory_links_1 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.memory_links_2 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.memory_links_3 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.memory_links_4 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.memory_links_5 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.memory_links_6 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.memory_links_7 PARTITION OF graph.memory_links FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX memory_links_by_target ON graph.memory_links (namespace, target_key, source_id);

CREATE TABLE graph.link_ends (
    namespace text    NOT NULL,
    memory_id uuid    NOT NULL,
    key       bigint  NOT NULL,
    sensitive boolean NOT NULL DEFAULT false CHECK (NOT sensitive),
    PRIMARY KEY (namespace, memory_id) INCLUDE (key),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE graph.link_ends_0 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.link_ends_1 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.link_ends_2 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.link_ends_3 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.link_ends_4 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.link_ends_5 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.link_ends_6 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.link_ends_7 PARTITION OF graph.link_ends FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX link_ends_by_key ON graph.link_ends (namespace, key) INCLUDE (memory_id);

CREATE TRIGGER log_inserted AFTER INSERT ON graph.link_ends
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory.log_derived('g');
CREATE TRIGGER log_updated AFTER UPDATE ON graph.link_ends
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory.log_derived('g');
CREATE TRIGGER log_deleted AFTER DELETE ON graph.link_ends
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory.log_derived('g');

-- The memory service need not be allowed to touch the graph, hence SECURITY DEFINER.
-- +goose StatementBegin
CREATE FUNCTION graph.purge_memory() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM graph.memory_links WHERE namespace = OLD.namespace AND source_id = OLD.id;
    DELETE FROM graph.link_ends WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph.facts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER purge_graph BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION graph.purge_memory();

GRANT SELECT ON schema_version_graph TO triskele_graph;
GRANT USAGE ON SCHEMA graph TO triskele_graph;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA graph TO triskele_graph;

-- See the memory track: concepts, mentions, facts and links follow their namespace. Mentions are counted as they come and go,
-- and a concept goes with its last mention.
-- +goose StatementBegin
CREATE FUNCTION graph.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('graph.concepts', OLD.name, NEW.name, '{mentions}');
        PERFORM memory.copy_rows('graph.memory_concepts', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.facts', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.memory_links', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.link_ends', OLD.name, NEW.name);
    END IF;
    DELETE FROM graph.memory_links WHERE namespace = OLD.name;
    DELETE FROM graph.link_ends WHERE namespace = OLD.name;
    DELETE FROM graph.facts WHERE namespace = OLD.name;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_2_graph AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION graph.follow_namespace();

-- What a language model has read facts out of: digest is of the text it was shown, so that no text is paid for twice,
-- and facts of a text that has changed since are known to be out of date.
CREATE TABLE graph.extractions (
    namespace    text        NOT NULL,
    memory_id    uuid        NOT NULL,
    sensitive    boolean     NOT NULL DEFAULT false CHECK (NOT sensitive),
    digest       bigint      NOT NULL,
    model        text        NOT NULL,
    facts        integer     NOT NULL CHECK (facts >= 0),
    tokens       integer     NOT NULL CHECK (tokens >= 0),
    extracted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE graph.extractions_0 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.extractions_1 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.extractions_2 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.extractions_3 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.extractions_4 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.extractions_5 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.extractions_6 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.extractions_7 PARTITION OF graph.extractions FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- +goose StatementBegin
CREATE FUNCTION graph.purge_extraction() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM graph.extractions WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER purge_graph_extraction BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION graph.purge_extraction();
-- +goose StatementBegin
CREATE FUNCTION graph.follow_extractions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('graph.extractions', OLD.name, NEW.name);
    END IF;
    DELETE FROM graph.extractions WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_2_graph_extractions AFTER UPDATE OF name OR DELETE ON memory.namespaces
    FOR EACH ROW EXECUTE FUNCTION graph.follow_extractions();

-- The graph's service may have memories enqueued for its model, and nothing else of the lists.
-- +goose StatementBegin
CREATE FUNCTION graph.set_extraction(wanted boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF wanted THEN
        INSERT INTO memory.indexes (name, sensitive) VALUES ('extraction', false) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM memory.indexes WHERE name = 'extraction';
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION graph.extraction() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM memory.indexes WHERE name = 'extraction')
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION graph.enqueue_extraction(wanted text) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH added AS (
        INSERT INTO memory.index_queue (namespace, memory_id, index_name, sensitive, revision, sequence, since)
        SELECT m.namespace, m.id, 'extraction', false, m.revision, m.sequence, m.sequence FROM memory.memories m
        WHERE m.namespace = wanted AND NOT m.sensitive AND m.superseded_by IS NULL
            AND NOT EXISTS (SELECT FROM graph.extractions x WHERE x.namespace = wanted AND x.memory_id = m.id)
        ON CONFLICT DO NOTHING RETURNING 1
    ) SELECT count(*) FROM added
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION graph.set_extraction(boolean), graph.extraction(), graph.enqueue_extraction(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION graph.set_extraction(boolean), graph.extraction(), graph.enqueue_extraction(text) TO triskele_graph;
CREATE POLICY extraction_tasks ON memory.index_queue TO triskele_graph
    USING (index_name = 'extraction' AND CASE WHEN namespace = (SELECT memory.scope()) THEN true ELSE (SELECT memory.scope()) = '*' END);

SELECT memory.isolate('graph');
GRANT SELECT, INSERT, UPDATE, DELETE ON graph.extractions TO triskele_graph;
