-- +goose Up
-- The log lacks changes of transactions before the floor: a copy whose snapshot may not have seen them is read anew.
CREATE TABLE memory.log_floor (
    writer xid8 NOT NULL
);
INSERT INTO memory.log_floor (writer) VALUES ('0');
GRANT SELECT ON memory.log_floor TO triskele_memory, triskele_lexical, triskele_dense, triskele_graph;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory.prune_log(before xid8) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE memory.log_floor SET writer = before WHERE writer < before;
    DELETE FROM memory.log WHERE writer < before;
$$;
-- +goose StatementEnd
