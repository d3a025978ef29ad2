-- +goose Up
-- idem_key is a hash of the Idempotency-Key of the request that placed the order; idem_request is a hash of its method,
-- path and body. They need no index, because a user has few orders and the unique index begins with the user. Only
-- metadata changes.
ALTER TABLE voucher_orders ADD COLUMN idem_key BINARY(16) NULL, ADD COLUMN idem_request BINARY(16) NULL;

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN idem_key, DROP COLUMN idem_request;
