-- +goose Up
SELECT memory.simplify_policies('graph'), memory.simplify_policies('memory'); -- the latter has a policy of this track

-- Counts mentions that came and went: a concept in ids has n more. One that nobody mentions goes. The transaction holds the
-- namespace's lock.
-- +goose StatementBegin
CREATE FUNCTION graph.count_mentions(counted_in text, ids bigint[], n bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE graph.concepts c SET mentions = c.mentions + d.n FROM unnest(ids, n) AS d (id, n) WHERE c.namespace = counted_in AND c.id = d.id;
    DELETE FROM graph.concepts c WHERE c.namespace = counted_in AND c.id = ANY (ids) AND c.mentions = 0;
END $$;
-- +goose StatementEnd

-- Removes the mentions of memories that are about to go. Whoever removes a memory calls it first.
-- +goose StatementBegin
CREATE FUNCTION graph.forget(forgotten_in text, memories uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    gone bigint[];
    counts bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM graph.memory_concepts m WHERE m.namespace = forgotten_in AND m.memory_id = ANY (memories)) THEN
        RETURN;
    END IF;
    PERFORM graph.lock_namespace(forgotten_in);
    SELECT array_agg(d.concept_id), array_agg(d.n) INTO gone, counts FROM (
        SELECT m.concept_id, -count(*) AS n FROM graph.memory_concepts m WHERE m.namespace = forgotten_in AND m.memory_id = ANY (memories) GROUP BY m.concept_id
    ) d;
    DELETE FROM graph.memory_concepts m WHERE m.namespace = forgotten_in AND m.memory_id = ANY (memories);
    PERFORM graph.count_mentions(forgotten_in, gone, counts);
END $$;
-- +goose StatementEnd

GRANT USAGE ON SCHEMA graph TO triskele_memory;
GRANT SELECT (namespace, concept_id, memory_id), DELETE ON graph.memory_concepts TO triskele_memory;
GRANT SELECT (namespace, id, mentions), UPDATE (mentions), DELETE ON graph.concepts TO triskele_memory;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION graph.mentions_added() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET enable_hashjoin = off SET enable_mergejoin = off
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF memory.notes_itself() THEN
        RETURN NULL;
    END IF;
    PERFORM graph.lock_namespace(n.namespace) FROM (SELECT DISTINCT namespace FROM added ORDER BY namespace) n;
    UPDATE graph.concepts c SET mentions = c.mentions + a.n
    FROM (SELECT namespace, concept_id, count(*) AS n FROM added GROUP BY namespace, concept_id) a
    WHERE c.namespace = a.namespace AND c.id = a.concept_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION graph.mentions_removed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET enable_hashjoin = off SET enable_mergejoin = off
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF memory.notes_itself() THEN
        RETURN NULL;
    END IF;
    PERFORM graph.lock_namespace(n.namespace) FROM (SELECT DISTINCT namespace FROM removed ORDER BY namespace) n;
    UPDATE graph.concepts c SET mentions = c.mentions - r.n
    FROM (SELECT namespace, concept_id, count(*) AS n FROM removed GROUP BY namespace, concept_id) r
    WHERE c.namespace = r.namespace AND c.id = r.concept_id;
    DELETE FROM graph.concepts c USING removed r
    WHERE c.namespace = r.namespace AND c.id = r.concept_id AND c.mentions = 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd
