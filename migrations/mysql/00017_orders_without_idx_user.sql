-- +goose Up
-- uk_user_voucher_slot begins with the user, and a user has few orders. No index cost more than this one, because orders
-- arrive in no order of users. Dropping it copies nothing and works while orders are placed.
ALTER TABLE voucher_orders DROP KEY idx_user;

-- +goose Down
ALTER TABLE voucher_orders ADD KEY idx_user (user_id, id);
