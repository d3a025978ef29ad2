-- +goose Up
-- status of a payment: also 6 disputed, the buyer's bank has taken the money back. disputed marks its order.
ALTER TABLE voucher_orders ADD COLUMN disputed INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN disputed;
