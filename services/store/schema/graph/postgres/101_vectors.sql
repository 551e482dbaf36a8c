-- +goose Up
-- What concepts and facts mean, for queries that name them otherwise: a byte for each dimension, beside the model that
-- made it, since vectors of different models cannot be compared. An empty one says that the model found nothing in the
-- text. They are columns, so that they go with the names and statements that they were made of.
ALTER TABLE graph.concepts
    ADD COLUMN vector       bytea,
    ADD COLUMN vector_model text,
    ADD CHECK ((vector IS NULL) = (vector_model IS NULL));
ALTER TABLE graph.concept_edges
    ADD COLUMN vector       bytea,
    ADD COLUMN vector_model text,
    ADD CHECK ((vector IS NULL) = (vector_model IS NULL));

-- +goose Down
ALTER TABLE graph.concepts DROP COLUMN vector, DROP COLUMN vector_model;
ALTER TABLE graph.concept_edges DROP COLUMN vector, DROP COLUMN vector_model;
