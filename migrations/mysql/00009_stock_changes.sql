-- +goose Up
-- Units added to a sale or removed from it after its creation. initial_stock is not included.
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
