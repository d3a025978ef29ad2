-- +goose Up
-- idem_key is a hash of the Idempotency-Key of the request that placed the order, idem_request one of what it said. They
-- need no index: a user has few orders, and the unique index begins with the user.
ALTER TABLE voucher_orders ADD COLUMN idem_key BLOB NULL;
ALTER TABLE voucher_orders ADD COLUMN idem_request BLOB NULL;

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN idem_request;
ALTER TABLE voucher_orders DROP COLUMN idem_key;
