-- +goose Up
-- ISO 4217. An order keeps the price and the currency that its voucher had when the order was placed.
ALTER TABLE vouchers ADD COLUMN currency TEXT NOT NULL DEFAULT 'CNY';
ALTER TABLE voucher_orders ADD COLUMN currency TEXT NOT NULL DEFAULT 'CNY';

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN currency;
ALTER TABLE vouchers DROP COLUMN currency;
