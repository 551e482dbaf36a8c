-- +goose Up
-- What is removed is joined with concepts by nested loops. They have to find each by its key, however small the table was when
-- the plan was made: read as a whole for each, a namespace of 1,000 memories took half a minute to rename.
ALTER FUNCTION graph.mentions_removed() SET enable_seqscan = off;

-- +goose Down
ALTER FUNCTION graph.mentions_removed() RESET enable_seqscan;
