-- +goose Up
-- slot is 1..limit_per_user while the order is active and NULL afterwards. The unique index therefore enforces at most
-- limit_per_user active orders, and a user can order again after a cancellation.
-- status: 1 pending_payment, 2 paid, 3 redeemed, 4 cancelled, 5 refunding, 6 refunded.
CREATE TABLE voucher_orders (
    id           BIGINT      NOT NULL,
    user_id      BIGINT      NOT NULL,
    voucher_id   BIGINT      NOT NULL,
    slot         TINYINT     NULL,
    status       TINYINT     NOT NULL,
    pay_type     TINYINT     NULL,
    amount       BIGINT      NOT NULL,
    created_at   DATETIME(3) NOT NULL,
    expires_at   DATETIME(3) NOT NULL,
    paid_at      DATETIME(3) NULL,
    redeemed_at  DATETIME(3) NULL,
    cancelled_at DATETIME(3) NULL,
    refunded_at  DATETIME(3) NULL,
    updated_at   DATETIME(3) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_user_voucher_slot (user_id, voucher_id, slot),
    KEY idx_status_expires (status, expires_at),
    KEY idx_user (user_id, id),
    KEY idx_voucher_status (voucher_id, status)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE voucher_orders;
