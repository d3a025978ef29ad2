-- +goose Up
-- ISO 4217. An order has the price and the currency of its voucher as they were when it was placed.
ALTER TABLE vouchers ADD COLUMN currency TEXT NOT NULL DEFAULT 'CNY';
ALTER TABLE voucher_orders ADD COLUMN currency TEXT NOT NULL DEFAULT 'CNY';

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN currency;
ALTER TABLE vouchers DROP COLUMN currency;
