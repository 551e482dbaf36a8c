-- +goose Up
SELECT memory.simplify_policies('dense');

-- A distributed engine numbers rows by 64 bits only.
ALTER TABLE dense.models ALTER COLUMN id TYPE bigint;

-- A service registers its model, and lets it have vectors of memories that are not sensitive. It may not say more than that.
ALTER TABLE dense.model_rows ALTER COLUMN sensitive SET DEFAULT false;
ALTER TABLE dense.model_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON dense.model_rows FOR SELECT USING (true);
CREATE POLICY plain_only ON dense.model_rows FOR INSERT TO triskele_dense WITH CHECK (NOT sensitive);
GRANT INSERT ON dense.model_rows TO triskele_dense;
