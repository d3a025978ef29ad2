-- +goose Up
-- One row per sale, which all its orders update. The CHECK is the last guard against overselling.
CREATE TABLE seckill_vouchers (
    voucher_id     BIGINT      NOT NULL,
    initial_stock  BIGINT      NOT NULL,
    stock          BIGINT      NOT NULL,
    begin_at       DATETIME(3) NOT NULL,
    end_at         DATETIME(3) NOT NULL,
    limit_per_user TINYINT     NOT NULL DEFAULT 1,
    created_at     DATETIME(3) NOT NULL,
    updated_at     DATETIME(3) NOT NULL,
    PRIMARY KEY (voucher_id),
    CONSTRAINT ck_stock CHECK (stock >= 0)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE seckill_vouchers;
