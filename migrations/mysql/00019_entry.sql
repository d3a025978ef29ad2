-- +goose Up
-- How buyers are admitted to a sale: entry_mode 0 open, 1 pass. A pass is valid for pass_ttl seconds and only in the
-- epoch in which it was issued. Only metadata changes.
ALTER TABLE seckill_vouchers
    ADD COLUMN entry_mode TINYINT NOT NULL DEFAULT 0,
    ADD COLUMN pass_ttl INT NOT NULL DEFAULT 10,
    ADD COLUMN entry_epoch INT UNSIGNED NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE seckill_vouchers DROP COLUMN entry_mode, DROP COLUMN pass_ttl, DROP COLUMN entry_epoch;
