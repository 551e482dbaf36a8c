-- +goose Up
CREATE SCHEMA lexical;

-- Apart from the memories, because a search reads tsvectors by the thousand: in the wide row they would be out of line.
-- Weights: A content and title, B expanded keywords, C tags, D category.
CREATE TABLE lexical.documents (
    namespace text     NOT NULL,
    memory_id uuid     NOT NULL,
    tsv       tsvector NOT NULL,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memory.memories (namespace, id) ON DELETE CASCADE
) PARTITION BY HASH (namespace);

CREATE TABLE lexical.documents_0 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.documents_1 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.documents_2 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.documents_3 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.documents_4 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.documents_5 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.documents_6 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.documents_7 PARTITION OF lexical.documents FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- Every search reads the list of entries that are not merged in yet, so it is kept short; without it a write takes ten
-- times as long.
CREATE INDEX documents_tsv ON lexical.documents USING gin (tsv) WITH (gin_pending_list_limit = 256);

-- The inverted index for BM25; docs/adr/0010-lexical-scorers.md says why it looks so. Term frequencies and lengths are weighted
-- sums over the fields, in tenths (A 10, B 4, C 2, D 1), lengths at most 65535.

-- What a namespace's index is made and searched with; without a row the defaults hold.
CREATE TABLE lexical.settings (
    namespace text    PRIMARY KEY,
    language  text    NOT NULL,
    k1        float8  NOT NULL CHECK (k1 BETWEEN 0 AND 10),
    b         float8  NOT NULL CHECK (b BETWEEN 0 AND 1),
    prefix    boolean NOT NULL,
    scorer    text    CHECK (scorer IN ('bm25', 'ts_rank')) -- NULL: as the leg is configured
);

-- Each document, with the number that blocks call it by; fresh until it has one. A changed document is a new one.
CREATE TABLE lexical.entries (
    namespace text NOT NULL,
    memory_id uuid NOT NULL,
    number    integer,
    PRIMARY KEY (namespace, memory_id)
) PARTITION BY HASH (namespace);
CREATE TABLE lexical.entries_0 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.entries_1 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.entries_2 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.entries_3 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.entries_4 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.entries_5 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.entries_6 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.entries_7 PARTITION OF lexical.entries FOR VALUES WITH (MODULUS 8, REMAINDER 7);
CREATE UNIQUE INDEX entries_by_number ON lexical.entries (namespace, number) INCLUDE (memory_id);

-- Folded postings of a term: count times 8 bytes, a document's number (4), term frequency (2) and length (2), most
-- significant byte first, in the order of numbers; first is the least of them.
CREATE TABLE lexical.blocks (
    namespace text    NOT NULL,
    term      text    NOT NULL COLLATE "C",
    first     integer NOT NULL,
    count     integer NOT NULL,
    data      bytea   NOT NULL,
    PRIMARY KEY (namespace, term, first)
) PARTITION BY HASH (namespace);
ALTER TABLE lexical.blocks ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE lexical.blocks_0 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.blocks_1 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.blocks_2 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.blocks_3 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.blocks_4 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.blocks_5 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.blocks_6 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.blocks_7 PARTITION OF lexical.blocks FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- Postings of fresh documents. A row whose term is empty stands for the document itself.
CREATE TABLE lexical.postings (
    namespace text    NOT NULL,
    term      text    NOT NULL COLLATE "C",
    memory_id uuid    NOT NULL,
    tf        integer NOT NULL,
    length    integer NOT NULL,
    PRIMARY KEY (namespace, term, memory_id)
) PARTITION BY HASH (namespace);
CREATE TABLE lexical.postings_0 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.postings_1 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.postings_2 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.postings_3 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.postings_4 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.postings_5 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.postings_6 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.postings_7 PARTITION OF lexical.postings FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- Postings in blocks that no longer hold. A row whose term is empty stands for the document itself.
CREATE TABLE lexical.removals (
    namespace text    NOT NULL,
    term      text    NOT NULL COLLATE "C",
    number    integer NOT NULL,
    length    integer NOT NULL,
    PRIMARY KEY (namespace, term, number)
) PARTITION BY HASH (namespace);
CREATE TABLE lexical.removals_0 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.removals_1 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.removals_2 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.removals_3 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.removals_4 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.removals_5 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.removals_6 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.removals_7 PARTITION OF lexical.removals FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- Documents that have a number, removed ones included, and the next number.
CREATE TABLE lexical.totals (
    namespace text    NOT NULL PRIMARY KEY,
    documents bigint  NOT NULL DEFAULT 0,
    length    bigint  NOT NULL DEFAULT 0,
    numbers   integer NOT NULL DEFAULT 0
);

-- Namespaces that are to be folded.
CREATE TABLE lexical.due (
    namespace text        NOT NULL,
    since     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX due_by_namespace ON lexical.due (namespace);

-- The postings of a document, and a row with an empty term for the document itself.
-- +goose StatementBegin
CREATE FUNCTION lexical.postings_of(tsv tsvector) RETURNS TABLE (term text, tf integer, length integer) LANGUAGE sql IMMUTABLE AS $$
    WITH terms AS MATERIALIZED (
        SELECT lexeme, CASE WHEN cardinality(weights) = 1 -- as most
            THEN CASE weights[1] WHEN 'A' THEN 10 WHEN 'B' THEN 4 WHEN 'C' THEN 2 ELSE 1 END
            ELSE 10 * cardinality(array_positions(weights, 'A')) + 4 * cardinality(array_positions(weights, 'B'))
                + 2 * cardinality(array_positions(weights, 'C')) + cardinality(array_positions(weights, 'D')) END AS tf
        FROM unnest(tsv)
    ), total AS MATERIALIZED (
        SELECT least(coalesce(sum(tf), 0), 65535)::integer AS length FROM terms
    )
    SELECT lexeme, tf, length FROM terms CROSS JOIN total
    UNION ALL
    SELECT '', 0, length FROM total
$$;
-- +goose StatementEnd

-- Keeps postings in step with documents, for whoever writes those.
-- +goose StatementBegin
CREATE FUNCTION lexical.index_documents() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        -- Waits for a fold that holds the entry, and then sees the number that the fold gave it.
        WITH gone AS (
            DELETE FROM lexical.entries e USING former f WHERE e.namespace = f.namespace AND e.memory_id = f.memory_id
            RETURNING e.namespace, e.memory_id, e.number, f.tsv
        ), terms AS MATERIALIZED (
            SELECT g.namespace, g.memory_id, g.number, p.term, p.length FROM gone g CROSS JOIN LATERAL lexical.postings_of(g.tsv) p
        ), fresh AS (
            DELETE FROM lexical.postings p USING terms t
            WHERE t.number IS NULL AND p.namespace = t.namespace AND p.term = t.term AND p.memory_id = t.memory_id
        )
        INSERT INTO lexical.removals (namespace, term, number, length)
        SELECT namespace, term, number, length FROM terms WHERE number IS NOT NULL;
        INSERT INTO lexical.due (namespace) SELECT namespace FROM (SELECT DISTINCT namespace FROM former) n WHERE lexical.is_due(namespace);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        -- A document whose entry is there already came with it, from under another name of the namespace.
        WITH fresh AS (
            INSERT INTO lexical.entries (namespace, memory_id) SELECT namespace, memory_id FROM latter ON CONFLICT DO NOTHING
            RETURNING namespace, memory_id
        )
        INSERT INTO lexical.postings (namespace, term, memory_id, tf, length)
        SELECT namespace, p.term, memory_id, p.tf, p.length FROM fresh JOIN latter l USING (namespace, memory_id) CROSS JOIN LATERAL lexical.postings_of(l.tsv) p;
        INSERT INTO lexical.due (namespace) SELECT namespace FROM (SELECT DISTINCT namespace FROM latter) n WHERE lexical.is_due(namespace);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Whether a namespace is to be folded and nobody has said so yet: at 256 fresh documents, or at any removal, since the
-- words that a changed document no longer has are to leave the blocks soon.
-- +goose StatementBegin
CREATE FUNCTION lexical.is_due(wanted text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM lexical.due WHERE namespace = wanted)
        AND (EXISTS (SELECT FROM lexical.removals WHERE namespace = wanted AND term = '')
            OR (SELECT count(*) FROM (SELECT FROM lexical.postings WHERE namespace = wanted AND term = '' LIMIT 256) fresh) >= 256);
END $$;
-- +goose StatementEnd

-- Folds the committed changes of a namespace into its blocks: postings of removed documents go, fresh ones are appended,
-- in blocks of 512 and a little more. One at a time per namespace; writers of other documents do not wait.
-- +goose StatementBegin
CREATE FUNCTION lexical.fold(wanted text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = off SET jit = off AS $$
DECLARE
    total lexical.totals;
BEGIN
    -- Whoever renames or deletes the namespace has locked it; what is due then goes by another name, or is no more.
    PERFORM FROM memory.namespaces WHERE name = wanted FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO lexical.totals (namespace) VALUES (wanted) ON CONFLICT DO NOTHING;
    SELECT * INTO total FROM lexical.totals WHERE namespace = wanted FOR UPDATE;
    DELETE FROM lexical.due WHERE namespace = wanted;

    WITH gone AS (
        DELETE FROM lexical.removals WHERE namespace = wanted RETURNING term, number, length
    ), hit AS (
        SELECT g.term, b.first, array_agg(int4send(g.number)) AS numbers, count(*)::integer AS count
        FROM gone g CROSS JOIN LATERAL (
            SELECT first FROM lexical.blocks WHERE namespace = wanted AND blocks.term = g.term AND first <= g.number ORDER BY first DESC LIMIT 1
        ) b WHERE g.term <> '' GROUP BY g.term, b.first
    ), emptied AS (
        DELETE FROM lexical.blocks b USING hit h WHERE b.namespace = wanted AND b.term = h.term AND b.first = h.first AND b.count = h.count
    ), kept AS (
        UPDATE lexical.blocks b SET count = b.count - h.count, data = (
            SELECT coalesce(string_agg(posting, ''::bytea ORDER BY place), ''::bytea)
            FROM (SELECT b.data || ''::bytea AS data OFFSET 0) whole -- read it once
            CROSS JOIN LATERAL (SELECT place, substring(whole.data FROM 8 * place + 1 FOR 8) AS posting FROM generate_series(0, b.count - 1) place OFFSET 0) p
            WHERE substring(posting FROM 1 FOR 4) <> ALL (h.numbers)
        )
        FROM hit h WHERE b.namespace = wanted AND b.term = h.term AND b.first = h.first AND b.count > h.count
    )
    UPDATE lexical.totals t SET documents = t.documents - r.documents, length = t.length - r.length
    FROM (SELECT count(*) AS documents, coalesce(sum(length), 0) AS length FROM gone WHERE term = '') r WHERE t.namespace = wanted;

    WITH chosen AS MATERIALIZED (
        SELECT memory_id, (total.numbers + row_number() OVER (ORDER BY memory_id))::integer AS number
        FROM (SELECT memory_id FROM lexical.entries WHERE namespace = wanted AND number IS NULL FOR UPDATE SKIP LOCKED) e
    ), numbered AS (
        UPDATE lexical.entries e SET number = c.number FROM chosen c WHERE e.namespace = wanted AND e.memory_id = c.memory_id
    ), taken AS (
        DELETE FROM lexical.postings p USING chosen c WHERE p.namespace = wanted AND p.memory_id = c.memory_id
        RETURNING p.term, c.number, p.tf, p.length
    ), appended AS (
        INSERT INTO lexical.blocks AS b (namespace, term, first, count, data)
        SELECT wanted, n.term, coalesce(tail.first, n.first), n.count, n.data
        FROM (
            SELECT term, chunk, min(number) AS first, count(*)::integer AS count, string_agg(int8send((number::bigint << 32) | (tf::bigint << 16) | length), ''::bytea ORDER BY number) AS data
            FROM (SELECT *, (row_number() OVER (PARTITION BY term ORDER BY number) - 1) / 512 AS chunk FROM taken WHERE term <> '') t GROUP BY term, chunk
        ) n
        LEFT JOIN LATERAL (
            SELECT last.first FROM (
                SELECT first, count FROM lexical.blocks WHERE namespace = wanted AND blocks.term = n.term ORDER BY first DESC LIMIT 1
            ) last WHERE n.chunk = 0 AND last.count < 512
        ) tail ON true
        ON CONFLICT (namespace, term, first) DO UPDATE SET count = b.count + excluded.count, data = b.data || excluded.data
    )
    UPDATE lexical.totals t SET documents = t.documents + f.documents, length = t.length + f.length, numbers = t.numbers + f.documents
    FROM (SELECT count(*) AS documents, coalesce(sum(length), 0) AS length FROM taken WHERE term = '') f WHERE t.namespace = wanted;
END $$;
-- +goose StatementEnd

-- Folds one namespace that is due, and names it; NULL when none is.
-- +goose StatementBegin
CREATE FUNCTION lexical.fold_next() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text;
BEGIN
    SELECT d.namespace INTO found FROM lexical.due d JOIN memory.namespaces n ON n.name = d.namespace ORDER BY d.since LIMIT 1
    FOR UPDATE OF d SKIP LOCKED FOR KEY SHARE OF n SKIP LOCKED;
    IF found IS NOT NULL THEN
        PERFORM lexical.fold(found);
    END IF;
    RETURN found;
END $$;
-- +goose StatementEnd

-- Makes a namespace's entries and blocks anew from its documents, while nobody writes any.
-- +goose StatementBegin
CREATE FUNCTION lexical.rebuild(wanted text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    LOCK TABLE lexical.documents IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO lexical.totals (namespace) VALUES (wanted) ON CONFLICT DO NOTHING;
    PERFORM FROM lexical.totals WHERE namespace = wanted FOR UPDATE;
    DELETE FROM lexical.due WHERE namespace = wanted;
    DELETE FROM lexical.postings WHERE namespace = wanted;
    DELETE FROM lexical.removals WHERE namespace = wanted;
    DELETE FROM lexical.blocks WHERE namespace = wanted;
    DELETE FROM lexical.entries WHERE namespace = wanted;
    INSERT INTO lexical.entries (namespace, memory_id, number)
    SELECT wanted, memory_id, row_number() OVER (ORDER BY memory_id) FROM lexical.documents WHERE namespace = wanted;
    WITH found AS MATERIALIZED (
        SELECT p.term, e.number, p.tf, p.length
        FROM lexical.entries e JOIN lexical.documents d ON d.namespace = e.namespace AND d.memory_id = e.memory_id
        CROSS JOIN LATERAL lexical.postings_of(d.tsv) p WHERE e.namespace = wanted
    ), packed AS (
        INSERT INTO lexical.blocks (namespace, term, first, count, data)
        SELECT wanted, term, min(number), count(*), string_agg(int8send((number::bigint << 32) | (tf::bigint << 16) | length), ''::bytea ORDER BY number)
        FROM (SELECT *, (row_number() OVER (PARTITION BY term ORDER BY number) - 1) / 512 AS chunk FROM found WHERE term <> '') p GROUP BY term, chunk
    )
    UPDATE lexical.totals t SET documents = f.documents, length = f.length, numbers = f.documents
    FROM (SELECT count(*) AS documents, coalesce(sum(length), 0) AS length FROM found WHERE term = '') f WHERE t.namespace = wanted;
END $$;
-- +goose StatementEnd

CREATE TRIGGER index_inserted AFTER INSERT ON lexical.documents REFERENCING NEW TABLE AS latter
    FOR EACH STATEMENT EXECUTE FUNCTION lexical.index_documents();
CREATE TRIGGER index_updated AFTER UPDATE ON lexical.documents REFERENCING OLD TABLE AS former NEW TABLE AS latter
    FOR EACH STATEMENT EXECUTE FUNCTION lexical.index_documents();
CREATE TRIGGER index_deleted AFTER DELETE ON lexical.documents REFERENCING OLD TABLE AS former
    FOR EACH STATEMENT EXECUTE FUNCTION lexical.index_documents();

GRANT SELECT ON schema_version_lexical TO triskele_memory, triskele_lexical;
GRANT USAGE ON SCHEMA lexical TO triskele_memory, triskele_lexical;
GRANT SELECT ON ALL TABLES IN SCHEMA lexical TO triskele_memory, triskele_lexical;
GRANT INSERT, UPDATE, DELETE ON lexical.documents TO triskele_memory;
GRANT INSERT, UPDATE ON lexical.settings TO triskele_memory;

-- Who writes documents has the rest written by triggers, as their owner; the leg may have that folded, and no more.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA lexical FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexical.fold TO triskele_memory; -- so that forgetting a memory leaves none of its words
GRANT EXECUTE ON FUNCTION lexical.fold_next TO triskele_lexical;

-- See the memory track: the index follows its namespace. Entries are copied before the documents and deleted before
-- them, so that the documents' triggers find nothing to do. What the new name may have had is settings and no more.
-- +goose StatementBegin
CREATE FUNCTION lexical.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t regclass;
BEGIN
    FOR t IN
        SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
        WHERE c.relnamespace = 'lexical'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        ORDER BY c.oid = 'lexical.documents'::regclass
    LOOP
        IF TG_OP = 'UPDATE' THEN
            EXECUTE format('DELETE FROM %s WHERE namespace = $1', t) USING NEW.name;
            PERFORM memory.copy_rows(t, OLD.name, NEW.name);
        END IF;
        EXECUTE format('DELETE FROM %s WHERE namespace = $1', t) USING OLD.name;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION lexical.follow_namespace FROM PUBLIC;
CREATE TRIGGER follow_2_lexical AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION lexical.follow_namespace();

-- Hashes of each memory's whole content and title, normalised by the program, to tell which memories a query quotes; the leg
-- may read neither. NULL where there are no words.
CREATE TABLE lexical.hashes (
    namespace text NOT NULL,
    memory_id uuid NOT NULL,
    content   bigint,
    title     bigint,
    PRIMARY KEY (namespace, memory_id),
    FOREIGN KEY (namespace, memory_id) REFERENCES memory.memories (namespace, id) ON DELETE CASCADE
) PARTITION BY HASH (namespace);
CREATE TABLE lexical.hashes_0 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE lexical.hashes_1 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE lexical.hashes_2 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE lexical.hashes_3 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE lexical.hashes_4 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE lexical.hashes_5 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE lexical.hashes_6 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE lexical.hashes_7 PARTITION OF lexical.hashes FOR VALUES WITH (MODULUS 8, REMAINDER 7);
CREATE INDEX hashes_content ON lexical.hashes (namespace, content, memory_id) WHERE content IS NOT NULL;
CREATE INDEX hashes_title ON lexical.hashes (namespace, title, memory_id) WHERE title IS NOT NULL;

-- No policy on documents: only leakproof operators may come before a policy, the matching of a tsvector is none, and so
-- each search would read the whole namespace instead of the GIN index. Its hits become memories, which have a policy.
SELECT memory.isolate('lexical', '{lexical.documents}');
GRANT SELECT, INSERT, UPDATE ON lexical.hashes TO triskele_memory;
GRANT SELECT ON lexical.hashes TO triskele_lexical;

-- Whoever changes a text takes its hashes away; a program that knows of them writes new ones in the same transaction.
-- +goose StatementBegin
CREATE FUNCTION lexical.forget_hashes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM lexical.hashes WHERE namespace = OLD.namespace AND memory_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION lexical.forget_hashes FROM PUBLIC;
CREATE TRIGGER forget_hashes AFTER UPDATE OF content, title ON memory.memories FOR EACH ROW
    WHEN (OLD.content IS DISTINCT FROM NEW.content OR OLD.title IS DISTINCT FROM NEW.title) EXECUTE FUNCTION lexical.forget_hashes();
