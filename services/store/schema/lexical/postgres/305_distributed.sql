-- +goose Up
SELECT memory.simplify_policies('lexical');
CREATE OR REPLACE VIEW lexical.terms WITH (security_barrier) AS
SELECT namespace, memory_id, terms FROM lexical.documents
WHERE CASE current_setting('triskele.namespace', true) WHEN namespace THEN true WHEN '*' THEN true ELSE memory.scope() IS NULL END;
