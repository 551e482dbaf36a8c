-- +goose Up
-- Says which of many ids are concepts. The table has vectors in its rows, so it takes twenty times the pages.
CREATE INDEX graph_concepts_by_id ON graph_concepts (namespace, id);
