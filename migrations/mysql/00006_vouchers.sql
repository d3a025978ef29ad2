-- +goose Up
-- type: 0 normal, 1 seckill. status: 1 on, 2 off, 3 expired. Amounts are in cents.
CREATE TABLE vouchers (
    id           BIGINT        NOT NULL AUTO_INCREMENT,
    shop_id      BIGINT        NOT NULL,
    title        VARCHAR(255)  NOT NULL,
    sub_title    VARCHAR(255)  NOT NULL DEFAULT '',
    rules        VARCHAR(1024) NOT NULL DEFAULT '',
    pay_value    BIGINT        NOT NULL,
    actual_value BIGINT        NOT NULL,
    type         TINYINT       NOT NULL,
    status       TINYINT       NOT NULL,
    created_at   DATETIME(3)   NOT NULL,
    updated_at   DATETIME(3)   NOT NULL,
    PRIMARY KEY (id),
    KEY idx_shop (shop_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE vouchers;
