-- +goose Up
-- provider_ref is the provider's reference of the payment. It is unique, so a repeated webhook call counts once.
CREATE TABLE payments (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    order_id     BIGINT       NOT NULL,
    provider     VARCHAR(32)  NOT NULL,
    provider_ref VARCHAR(128) NOT NULL,
    amount       BIGINT       NOT NULL,
    status       TINYINT      NOT NULL,
    created_at   DATETIME(3)  NOT NULL,
    updated_at   DATETIME(3)  NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_provider_ref (provider_ref),
    KEY idx_order (order_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE payments;
