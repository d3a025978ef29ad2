-- +goose Up
-- idem_key is a hash of the Idempotency-Key of the request that placed the order; idem_request is a hash of its method,
-- path and body. Migration 00018 adds an index.
ALTER TABLE voucher_orders ADD COLUMN idem_key BLOB NULL;
ALTER TABLE voucher_orders ADD COLUMN idem_request BLOB NULL;

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN idem_request;
ALTER TABLE voucher_orders DROP COLUMN idem_key;
