-- +goose Up
-- No policy on documents: only leakproof operators may come before a policy, the matching of a tsvector is none, and so
-- each search would read the whole namespace instead of the GIN index. Its hits become memories, which have a policy.
SELECT memory.isolate('lexical', '{lexical.documents}');

GRANT SELECT ON schema_version_lexical TO triskele_memory, triskele_lexical;
GRANT USAGE ON SCHEMA lexical TO triskele_memory, triskele_lexical;
GRANT SELECT ON ALL TABLES IN SCHEMA lexical TO triskele_memory, triskele_lexical;
GRANT INSERT, UPDATE, DELETE ON lexical.documents TO triskele_memory;
GRANT INSERT, UPDATE ON lexical.settings TO triskele_memory;

-- Who writes documents has the rest written by triggers, as their owner; the leg may have that folded, and no more.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA lexical FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexical.fold TO triskele_memory; -- so that forgetting a memory leaves none of its words
GRANT EXECUTE ON FUNCTION lexical.fold_next TO triskele_lexical;
