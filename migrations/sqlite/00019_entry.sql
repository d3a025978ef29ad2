-- +goose Up
-- How buyers are admitted to a sale: entry_mode 0 open, 1 pass. A pass is valid for pass_ttl seconds and only in the
-- epoch in which it was issued.
ALTER TABLE seckill_vouchers ADD COLUMN entry_mode INTEGER NOT NULL DEFAULT 0;
ALTER TABLE seckill_vouchers ADD COLUMN pass_ttl INTEGER NOT NULL DEFAULT 10;
ALTER TABLE seckill_vouchers ADD COLUMN entry_epoch INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE seckill_vouchers DROP COLUMN entry_epoch;
ALTER TABLE seckill_vouchers DROP COLUMN pass_ttl;
ALTER TABLE seckill_vouchers DROP COLUMN entry_mode;
