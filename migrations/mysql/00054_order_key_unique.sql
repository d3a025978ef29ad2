-- +goose Up
-- The index refuses the second order of a key, so that the first needs no look at its user's other orders. Of a key that was
-- used again after its life, the newest order keeps it. Orders are placed meanwhile.
UPDATE voucher_orders o JOIN (
    SELECT user_id, idem_key, MAX(id) AS newest FROM voucher_orders WHERE idem_key IS NOT NULL
    GROUP BY user_id, idem_key HAVING COUNT(*) > 1
) k ON o.user_id = k.user_id AND o.idem_key = k.idem_key AND o.id < k.newest SET o.idem_key = NULL, o.idem_request = NULL;
ALTER TABLE voucher_orders ADD UNIQUE KEY uk_user_idem_key (user_id, idem_key), ALGORITHM = INPLACE, LOCK = NONE;
ALTER TABLE voucher_orders DROP KEY idx_user_idem_key, ALGORITHM = INPLACE, LOCK = NONE;

-- +goose Down
ALTER TABLE voucher_orders ADD KEY idx_user_idem_key (user_id, idem_key), ALGORITHM = INPLACE, LOCK = NONE;
ALTER TABLE voucher_orders DROP KEY uk_user_idem_key, ALGORITHM = INPLACE, LOCK = NONE;
