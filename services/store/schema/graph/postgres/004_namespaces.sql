-- +goose Up
-- See the memory track: concepts, mentions, edges and links follow their namespace. Mentions are counted as they come and go,
-- and a concept goes with its last mention.
-- +goose StatementBegin
CREATE FUNCTION graph.follow_namespace() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory.copy_rows('graph.concepts', OLD.name, NEW.name, '{mentions}');
        PERFORM memory.copy_rows('graph.memory_concepts', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.concept_edges', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.memory_links', OLD.name, NEW.name);
        PERFORM memory.copy_rows('graph.link_ends', OLD.name, NEW.name);
    END IF;
    DELETE FROM graph.memory_links WHERE namespace = OLD.name;
    DELETE FROM graph.link_ends WHERE namespace = OLD.name;
    DELETE FROM graph.concept_edges WHERE namespace = OLD.name;
    DELETE FROM graph.memory_concepts WHERE namespace = OLD.name;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follow_2_graph AFTER UPDATE OF name OR DELETE ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION graph.follow_namespace();

-- +goose Down
DROP TRIGGER follow_2_graph ON memory.namespaces;
DROP FUNCTION graph.follow_namespace();
