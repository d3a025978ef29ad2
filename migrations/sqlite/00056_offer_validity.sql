-- +goose Up
-- valid_from, valid_until: those of the voucher, as bought.
ALTER TABLE offers ADD COLUMN valid_from DATETIME NULL;
ALTER TABLE offers ADD COLUMN valid_until DATETIME NULL;

-- +goose Down
ALTER TABLE offers DROP COLUMN valid_from;
ALTER TABLE offers DROP COLUMN valid_until;
