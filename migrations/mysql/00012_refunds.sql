-- +goose Up
-- status of a payment: 1 pending, 2 succeeded, 3 failed, 4 refunding, 5 refunded. next_try_at is the time
-- of the next refund request to the provider.
ALTER TABLE payments ADD COLUMN currency CHAR(3) NOT NULL DEFAULT 'CNY';
ALTER TABLE payments ADD COLUMN refund_tries INT NOT NULL DEFAULT 0;
ALTER TABLE payments ADD COLUMN next_try_at DATETIME(3) NULL;
ALTER TABLE payments ADD KEY idx_status_next_try (status, next_try_at);

-- +goose Down
ALTER TABLE payments DROP KEY idx_status_next_try;
ALTER TABLE payments DROP COLUMN next_try_at;
ALTER TABLE payments DROP COLUMN refund_tries;
ALTER TABLE payments DROP COLUMN currency;
