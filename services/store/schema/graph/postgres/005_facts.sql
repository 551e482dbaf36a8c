-- +goose Up
-- Facts: edges with a direction and a relation, which somebody stated, beside the co-mentions that a text shows. What a
-- relation holds one of at a time (single) is closed by the newest: which edges that are follows from the edges, so that
-- forgetting the evidence of a closing opens the edge again. stated_to is what the source says about its end; valid_to is
-- the earlier of that and of the end of the memory.
ALTER TABLE graph.concept_edges
    ADD COLUMN origin    text    NOT NULL DEFAULT 'text' CHECK (origin IN ('text', 'import', 'model')),
    ADD COLUMN single    boolean NOT NULL DEFAULT false,
    ADD COLUMN stated_to timestamptz;

-- A search "as of" a time crosses edges that are closed by now.
DROP INDEX graph.concept_edges_by_target;
CREATE INDEX concept_edges_by_target ON graph.concept_edges (namespace, target_id, source_id) INCLUDE (weight, valid_to);

-- How often a namespace's graph has changed, and at which of these changes it last lost a memory: a copy in memory reads
-- what is newer than itself, and which memories are left if one was lost. Another epoch means that nothing of the copy is
-- good any more: the namespace is another one of the same name.
CREATE TABLE graph.versions (
    namespace text   NOT NULL PRIMARY KEY,
    epoch     bigint NOT NULL DEFAULT (random() * 9e18)::bigint,
    version   bigint NOT NULL,
    removed   bigint NOT NULL
) PARTITION BY HASH (namespace);

CREATE TABLE graph.versions_0 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE graph.versions_1 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE graph.versions_2 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE graph.versions_3 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE graph.versions_4 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE graph.versions_5 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE graph.versions_6 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE graph.versions_7 PARTITION OF graph.versions FOR VALUES WITH (MODULUS 8, REMAINDER 7);

ALTER TABLE graph.link_ends ADD COLUMN version bigint NOT NULL DEFAULT 1;
CREATE INDEX link_ends_by_version ON graph.link_ends (namespace, version);

INSERT INTO graph.versions (namespace, version, removed) SELECT DISTINCT namespace, 1, 0 FROM graph.link_ends;

-- +goose StatementBegin
CREATE FUNCTION graph.memories_removed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM graph.lock_namespace(n.namespace) FROM (SELECT DISTINCT namespace FROM removed ORDER BY namespace) n;
    UPDATE graph.versions v SET version = v.version + 1, removed = v.version + 1
    WHERE v.namespace IN (SELECT namespace FROM removed);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER memories_removed AFTER DELETE ON graph.link_ends
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION graph.memories_removed();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION graph.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('graph.concepts', OLD.name, NEW.name, '{mentions}');
        PERFORM memory.copy_rows('graph.memory_concepts', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.concept_edges', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.memory_links', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.link_ends', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.versions', OLD.name, NEW.name, '{epoch}');
    END IF;
    DELETE FROM graph.memory_links WHERE namespace = OLD.name;
    DELETE FROM graph.link_ends WHERE namespace = OLD.name;
    DELETE FROM graph.concept_edges WHERE namespace = OLD.name;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.name;
    DELETE FROM graph.versions WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd

SELECT memory.isolate('graph');
GRANT SELECT, INSERT, UPDATE, DELETE ON graph.versions TO triskele_graph;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION graph.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('graph.concepts', OLD.name, NEW.name, '{mentions}');
        PERFORM memory.copy_rows('graph.memory_concepts', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.concept_edges', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.memory_links', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.link_ends', OLD.name, NEW.name);
    END IF;
    DELETE FROM graph.memory_links WHERE namespace = OLD.name;
    DELETE FROM graph.link_ends WHERE namespace = OLD.name;
    DELETE FROM graph.concept_edges WHERE namespace = OLD.name;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER memories_removed ON graph.link_ends;
DROP FUNCTION graph.memories_removed();
DROP INDEX graph.link_ends_by_version;
ALTER TABLE graph.link_ends DROP COLUMN version;
DROP TABLE graph.versions;
DROP INDEX graph.concept_edges_by_target;
CREATE INDEX concept_edges_by_target ON graph.concept_edges (namespace, target_id, source_id) INCLUDE (weight) WHERE valid_to IS NULL;
DELETE FROM graph.concept_edges WHERE origin <> 'text' OR relation <> 'co-mention';
ALTER TABLE graph.concept_edges DROP COLUMN origin, DROP COLUMN single, DROP COLUMN stated_to;
