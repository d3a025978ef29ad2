-- +goose Up
-- uk_user_voucher_slot also begins with the user, and a user has few orders. This index was the most expensive one,
-- because orders arrive in random order of users. Orders are placed meanwhile.
ALTER TABLE voucher_orders DROP KEY idx_user, ALGORITHM = INPLACE, LOCK = NONE;

-- +goose Down
ALTER TABLE voucher_orders ADD KEY idx_user (user_id, id), ALGORITHM = INPLACE, LOCK = NONE;
