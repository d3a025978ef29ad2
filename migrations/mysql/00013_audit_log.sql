-- +goose Up
-- Actions on vouchers and orders, written in the same transaction as the action. Placing an order has no entry, because
-- the order itself is the record. actor is buyer, admin, provider or system; actor_id is the id of a user, or 0.
CREATE TABLE audit_log (
    id         BIGINT       NOT NULL AUTO_INCREMENT,
    at         DATETIME(3)  NOT NULL,
    actor      VARCHAR(16)  NOT NULL,
    actor_id   BIGINT       NOT NULL,
    action     VARCHAR(32)  NOT NULL,
    voucher_id BIGINT       NOT NULL,
    order_id   BIGINT       NULL,
    detail     TEXT         NOT NULL,
    PRIMARY KEY (id),
    KEY idx_voucher (voucher_id, id),
    KEY idx_order (order_id, id),
    KEY idx_actor (actor_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE audit_log;
