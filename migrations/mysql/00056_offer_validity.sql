-- +goose Up
-- valid_from, valid_until: those of the voucher, as bought. Only metadata changes.
ALTER TABLE offers ADD COLUMN valid_from DATETIME(3) NULL, ADD COLUMN valid_until DATETIME(3) NULL;

-- +goose Down
ALTER TABLE offers DROP COLUMN valid_from, DROP COLUMN valid_until;
