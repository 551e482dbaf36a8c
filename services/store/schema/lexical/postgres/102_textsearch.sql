-- +goose Up
-- For the scorer textsearch: the extension pg_textsearch indexes texts, so each term is written as often as it weighs, in
-- fifths of a word (A 5, B 2, C 1, D 1), and terms that its parser might take apart as a hash. The program writes queries alike.
-- The indexes themselves, one for a namespace, are made by triskele lexical textsearch.
-- +goose StatementBegin
CREATE FUNCTION lexical.words_of(tsv tsvector) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(repeat(CASE WHEN lexeme ~ '^[a-z]+$' THEN lexeme ELSE 'x' || md5(lexeme) END || ' ',
        5 * cardinality(array_positions(weights, 'A')) + 2 * cardinality(array_positions(weights, 'B'))
            + cardinality(array_positions(weights, 'C')) + cardinality(array_positions(weights, 'D'))), ''), '')
    FROM unnest(tsv)
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION lexical.words_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexical.words_of TO triskele_memory, triskele_lexical;

ALTER TABLE lexical.settings DROP CONSTRAINT settings_scorer_check, ADD CONSTRAINT settings_scorer_check CHECK (scorer IN ('bm25', 'ts_rank', 'textsearch'));

-- +goose Down
UPDATE lexical.settings SET scorer = NULL WHERE scorer = 'textsearch';
ALTER TABLE lexical.settings DROP CONSTRAINT settings_scorer_check, ADD CONSTRAINT settings_scorer_check CHECK (scorer IN ('bm25', 'ts_rank'));
DROP FUNCTION lexical.words_of CASCADE;
