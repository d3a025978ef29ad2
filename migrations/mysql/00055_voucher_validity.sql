-- +goose Up
-- valid_from, valid_until: when a voucher can be redeemed after its purchase, from the first until before the second;
-- NULL: no bound. Only metadata changes.
ALTER TABLE vouchers ADD COLUMN valid_from DATETIME(3) NULL, ADD COLUMN valid_until DATETIME(3) NULL;

-- +goose Down
ALTER TABLE vouchers DROP COLUMN valid_from, DROP COLUMN valid_until;
