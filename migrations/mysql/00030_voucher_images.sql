-- +goose Up
-- image_id: the picture of a voucher, in the table images; empty: none. status of vouchers: 4 is a draft. Only metadata
-- changes.
ALTER TABLE vouchers ADD COLUMN image_id CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE vouchers DROP COLUMN image_id;
