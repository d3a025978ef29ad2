-- +goose Up
-- valid_from, valid_until: when a voucher can be redeemed after its purchase, from the first until before the second;
-- NULL: no bound.
ALTER TABLE vouchers ADD COLUMN valid_from DATETIME NULL;
ALTER TABLE vouchers ADD COLUMN valid_until DATETIME NULL;

-- +goose Down
ALTER TABLE vouchers DROP COLUMN valid_from;
ALTER TABLE vouchers DROP COLUMN valid_until;
