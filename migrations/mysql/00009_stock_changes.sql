-- +goose Up
-- Units added to or taken from a sale after it was created; initial_stock is not repeated here.
CREATE TABLE stock_changes (
    id         BIGINT       NOT NULL AUTO_INCREMENT,
    voucher_id BIGINT       NOT NULL,
    delta      BIGINT       NOT NULL,
    reason     VARCHAR(255) NOT NULL,
    actor_id   BIGINT       NOT NULL,
    created_at DATETIME(3)  NOT NULL,
    PRIMARY KEY (id),
    KEY idx_voucher (voucher_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE stock_changes;
