-- +goose Up
-- refund_error: why the last request for a refund has failed; empty if none has.
ALTER TABLE payments ADD COLUMN refund_error VARCHAR(255) NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE payments DROP COLUMN refund_error;
