-- +goose Up
-- Who did what to which voucher or order: written in the transaction that does it. The order that was placed is its own
-- record. actor is buyer, admin, provider or system; actor_id is a user's id, 0 for the others.
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
