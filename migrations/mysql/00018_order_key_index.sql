-- +goose Up
-- A request with a key is compared with the earlier orders of its user. Without this index, all of them are read.
-- Orders are placed meanwhile.
ALTER TABLE voucher_orders ADD KEY idx_user_idem_key (user_id, idem_key), ALGORITHM = INPLACE, LOCK = NONE;

-- +goose Down
ALTER TABLE voucher_orders DROP KEY idx_user_idem_key, ALGORITHM = INPLACE, LOCK = NONE;
