-- +goose Up
-- See the PostgreSQL track.
ALTER TABLE graph_concepts ADD COLUMN vector BLOB;
ALTER TABLE graph_concepts ADD COLUMN vector_model TEXT CHECK ((vector IS NULL) = (vector_model IS NULL));
ALTER TABLE graph_concept_edges ADD COLUMN vector BLOB;
ALTER TABLE graph_concept_edges ADD COLUMN vector_model TEXT CHECK ((vector IS NULL) = (vector_model IS NULL));

-- +goose Down
ALTER TABLE graph_concepts DROP COLUMN vector_model;
ALTER TABLE graph_concepts DROP COLUMN vector;
ALTER TABLE graph_concept_edges DROP COLUMN vector_model;
ALTER TABLE graph_concept_edges DROP COLUMN vector;
