-- +goose Up
-- segments: the parts of the sale's gate in lane queue, 1 to 16, over which Redis spreads the stock. The stock here stays
-- one row.
ALTER TABLE seckill_vouchers ADD COLUMN segments INTEGER NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE seckill_vouchers DROP COLUMN segments;
