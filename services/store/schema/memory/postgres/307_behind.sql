-- +goose Up
-- How many of a namespace's memories an index has yet to process, at most a number.
-- +goose StatementBegin
CREATE FUNCTION memory.behind(asked text, index text, most int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory.enter(asked);
    RETURN (SELECT count(*) FROM (SELECT FROM memory.index_queue q WHERE q.namespace = asked AND q.index_name = index LIMIT most) waiting);
END $$;
-- +goose StatementEnd
