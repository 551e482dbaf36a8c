-- +goose Up
-- A cascade's triggers run for whoever forgets a memory, who has no right to the graph.
ALTER FUNCTION graph.mentions_added() SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION graph.mentions_removed() SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

SELECT memory.isolate('graph');

GRANT SELECT ON schema_version_graph TO triskele_graph;
GRANT USAGE ON SCHEMA graph TO triskele_graph;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA graph TO triskele_graph;
