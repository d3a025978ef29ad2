-- +goose Up
-- idem_key is a hash of the Idempotency-Key of the request that placed the order; idem_request is a hash of its method,
-- path and body. Migration 00018 adds an index. Only metadata changes.
ALTER TABLE voucher_orders ADD COLUMN idem_key BINARY(16) NULL, ADD COLUMN idem_request BINARY(16) NULL;

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN idem_key, DROP COLUMN idem_request;
