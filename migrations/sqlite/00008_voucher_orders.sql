-- +goose Up
-- slot is 1..limit_per_user while the order is active and NULL afterwards. The unique index therefore enforces at most
-- limit_per_user active orders, and a user can order again after a cancellation.
-- status: 1 pending_payment, 2 paid, 3 redeemed, 4 cancelled, 5 refunding, 6 refunded.
CREATE TABLE voucher_orders (
    id           INTEGER  PRIMARY KEY,
    user_id      INTEGER  NOT NULL,
    voucher_id   INTEGER  NOT NULL,
    slot         INTEGER  NULL,
    status       INTEGER  NOT NULL,
    pay_type     INTEGER  NULL,
    amount       INTEGER  NOT NULL,
    created_at   DATETIME NOT NULL,
    expires_at   DATETIME NOT NULL,
    paid_at      DATETIME NULL,
    redeemed_at  DATETIME NULL,
    cancelled_at DATETIME NULL,
    refunded_at  DATETIME NULL,
    updated_at   DATETIME NOT NULL
);
CREATE UNIQUE INDEX uk_user_voucher_slot ON voucher_orders (user_id, voucher_id, slot);
CREATE INDEX idx_orders_status_expires ON voucher_orders (status, expires_at);
CREATE INDEX idx_orders_user ON voucher_orders (user_id, id);
CREATE INDEX idx_orders_voucher_status ON voucher_orders (voucher_id, status);

-- +goose Down
DROP TABLE voucher_orders;
