-- +goose Up
CREATE SCHEMA graph;

-- A name that memories share. The id is a hash of the key, so that both engines and every process agree on it without
-- asking. mentions counts the rows of memory_concepts; triggers keep it, and a concept nobody mentions does not exist:
-- its name may be somebody's private text.
CREATE TABLE graph.concepts (
    namespace text   NOT NULL,
    id        bigint NOT NULL,
    key       text   NOT NULL,
    name      text   NOT NULL,
    kind      text   NOT NULL CHECK (kind IN ('title', 'tag', 'keyword', 'name')),
    mentions  bigint NOT NULL DEFAULT 0 CHECK (mentions >= 0),
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
    salience   float8  NOT NULL CHECK (salience BETWEEN 0 AND 1),
    revision   bigint  NOT NULL,
    PRIMARY KEY (namespace, concept_id, memory_id) INCLUDE (salience),
    FOREIGN KEY (namespace, concept_id) REFERENCES graph.concepts (namespace, id),
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

-- What a memory says of two concepts. Symmetric relations are stored once, smaller id first. An edge holds while
-- valid_to is NULL. Both ends are mentions of the evidence, so edges need no foreign key to concepts.
CREATE TABLE graph.concept_edges (
    namespace  text        NOT NULL,
    source_id  bigint      NOT NULL,
    target_id  bigint      NOT NULL,
    relation   text        NOT NULL,
    memory_id  uuid        NOT NULL,
    sensitive  boolean     NOT NULL DEFAULT false CHECK (NOT sensitive),
    weight     float8      NOT NULL CHECK (weight > 0 AND weight <= 1),
    valid_from timestamptz NOT NULL,
    valid_to   timestamptz,
    PRIMARY KEY (namespace, source_id, target_id, relation, memory_id) INCLUDE (weight, valid_to),
    FOREIGN KEY (namespace, memory_id, sensitive) REFERENCES memory.memories (namespace, id, sensitive) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE graph.concept_edges_0 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.concept_edges_1 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.concept_edges_2 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.concept_edges_3 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.concept_edges_4 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.concept_edges_5 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.concept_edges_6 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.concept_edges_7 PARTITION OF graph.concept_edges FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX concept_edges_by_target ON graph.concept_edges (namespace, target_id, source_id) INCLUDE (weight) WHERE valid_to IS NULL;
CREATE INDEX concept_edges_by_memory ON graph.concept_edges (namespace, memory_id);

-- One transaction at a time changes the mentions of a namespace: counts of shared concepts cannot be changed
-- concurrently without deadlocks, since a cascade locks them in no particular order. Whoever takes the lock holds the
-- memories' row locks already.
-- +goose StatementBegin
CREATE FUNCTION graph.lock_namespace(namespace text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('graph ' || namespace, 0))
$$;
-- +goose StatementEnd

-- Planner settings: the statements touch a few rows by key, and a plan made while the table was small must not scan it
-- when it has grown.
-- +goose StatementBegin
CREATE FUNCTION graph.mentions_added() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    PERFORM graph.lock_namespace(n.namespace) FROM (SELECT DISTINCT namespace FROM added ORDER BY namespace) n;
    UPDATE graph.concepts c SET mentions = c.mentions + a.n
    FROM (SELECT namespace, concept_id, count(*) AS n FROM added GROUP BY namespace, concept_id) a
    WHERE c.namespace = a.namespace AND c.id = a.concept_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION graph.mentions_removed() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- The memory service need not be allowed to touch the graph, hence SECURITY DEFINER.
-- +goose StatementBegin
CREATE FUNCTION graph.purge_memory() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM graph.concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER purge_graph BEFORE UPDATE OF sensitive ON memory.memories
    FOR EACH ROW WHEN (NEW.sensitive AND NOT OLD.sensitive) EXECUTE FUNCTION graph.purge_memory();

-- +goose Down
DROP TRIGGER purge_graph ON memory.memories;
DROP SCHEMA graph CASCADE;
