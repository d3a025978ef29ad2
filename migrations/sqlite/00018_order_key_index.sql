-- +goose Up
CREATE INDEX idx_user_idem_key ON voucher_orders (user_id, idem_key) WHERE idem_key IS NOT NULL;

-- +goose Down
DROP INDEX idx_user_idem_key;
