-- +goose Up
-- queried_at: when the provider was last queried and had no result of the payment.
ALTER TABLE payments ADD COLUMN queried_at DATETIME NULL;

-- +goose Down
ALTER TABLE payments DROP COLUMN queried_at;
