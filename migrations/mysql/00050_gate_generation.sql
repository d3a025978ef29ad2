-- +goose Up
-- gate_generation: raised before the sale's gate is loaded after Redis may have lost admissions. Admissions of an earlier
-- generation are not committed unless the present gate has them. Only metadata changes.
ALTER TABLE seckill_vouchers ADD COLUMN gate_generation BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE seckill_vouchers DROP COLUMN gate_generation;
