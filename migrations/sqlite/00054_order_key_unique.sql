-- +goose Up
UPDATE voucher_orders SET idem_key = NULL, idem_request = NULL WHERE idem_key IS NOT NULL AND EXISTS (
    SELECT 1 FROM voucher_orders n WHERE n.user_id = voucher_orders.user_id AND n.idem_key = voucher_orders.idem_key
    AND n.id > voucher_orders.id
);
CREATE UNIQUE INDEX uk_user_idem_key ON voucher_orders (user_id, idem_key) WHERE idem_key IS NOT NULL;
DROP INDEX idx_user_idem_key;

-- +goose Down
CREATE INDEX idx_user_idem_key ON voucher_orders (user_id, idem_key) WHERE idem_key IS NOT NULL;
DROP INDEX uk_user_idem_key;
