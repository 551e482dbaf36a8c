-- +goose Up
-- Edges that authors drew between memories. The target may not exist yet, or no longer, and then nothing here may say
-- which memory it was: an edge names its target by a hash of the id, and link_ends says which memory that is, for as long
-- as there is one that is not sensitive.
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION graph.purge_memory() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM graph.memory_links WHERE namespace = OLD.namespace AND source_id = OLD.id;
    DELETE FROM graph.link_ends WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph.concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- Memories that were there before are indexed again, for their ends and links.
INSERT INTO memory.index_queue AS q (namespace, memory_id, index_name, sensitive, revision, sequence, since)
SELECT namespace, id, 'graph', false, revision, sequence, sequence FROM memory.memories WHERE NOT sensitive
ON CONFLICT (namespace, memory_id, index_name) DO NOTHING;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION graph.purge_memory() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM graph.concept_edges WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TABLE graph.memory_links;
DROP TABLE graph.link_ends;
