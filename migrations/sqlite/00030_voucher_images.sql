-- +goose Up
-- image_id: the picture of a voucher, in the table images; empty: none. status of vouchers: 4 is a draft.
ALTER TABLE vouchers ADD COLUMN image_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE vouchers DROP COLUMN image_id;
