-- +goose Up
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

-- +goose Down
DROP POLICY extraction_tasks ON memory.index_queue;
DROP FUNCTION graph.enqueue_extraction(text);
DROP FUNCTION graph.extraction();
DROP FUNCTION graph.set_extraction(boolean);
DELETE FROM memory.indexes WHERE name = 'extraction';
DROP TRIGGER follow_2_graph_extractions ON memory.namespaces;
DROP FUNCTION graph.follow_extractions();
DROP TRIGGER purge_graph_extraction ON memory.memories;
DROP FUNCTION graph.purge_extraction();
DROP TABLE graph.extractions;
