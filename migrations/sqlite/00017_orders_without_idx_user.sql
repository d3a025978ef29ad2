-- +goose Up
-- uk_user_voucher_slot also begins with the user, and a user has few orders.
DROP INDEX idx_orders_user;

-- +goose Down
CREATE INDEX idx_orders_user ON voucher_orders (user_id, id);
