-- +goose Up
-- Every keyed order compares its key with the earlier orders of its user. Without this index that reads all of them.
ALTER TABLE voucher_orders ADD KEY idx_user_idem_key (user_id, idem_key);

-- +goose Down
ALTER TABLE voucher_orders DROP KEY idx_user_idem_key;
