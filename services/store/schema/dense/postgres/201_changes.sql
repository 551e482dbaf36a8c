-- +goose Up
-- Who has a namespace's vectors in memory finds the ones that have come since by the number of the transaction that wrote them,
-- and what snapshots say of it. NULL is one from before this step.
ALTER TABLE dense.vectors ADD COLUMN change xid8;
-- +goose StatementBegin
CREATE FUNCTION dense.note_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.change := pg_current_xact_id();
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER note_change BEFORE INSERT OR UPDATE ON dense.vectors FOR EACH ROW EXECUTE FUNCTION dense.note_change();
CREATE INDEX vectors_changed ON dense.vectors (namespace, model_id, change) WHERE change IS NOT NULL;

-- +goose Down
DROP INDEX dense.vectors_changed;
DROP TRIGGER note_change ON dense.vectors;
DROP FUNCTION dense.note_change();
ALTER TABLE dense.vectors DROP COLUMN change;
